package quota

import (
	"math"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

// Narrow returns a shape without the types of GPU of which a limit leaves too few.
func (l *Limits) Narrow(s work.Shape) work.Shape {
	if !l.Typed() || !s.NeedsGPU() || l.ample(s.GPUMilli()) {
		return s
	}
	_, s = l.types(s)
	return s
}

// readModels reads the types and models of GPU.
func (r *Room) readModels() []work.GPU {
	if r.models == nil {
		r.models = slices.AppendSeq([]work.GPU{}, r.view.GPUModels())
	}
	return r.models
}

// of reports whether a shape may use GPUs of a kind.
func of(kind work.GPU, s *work.Shape) bool {
	kind.MemMB = s.GPUMemMB
	return work.GPUMatches(&kind, s)
}

// slackByType returns the least number of GPUs, in thousandths, that limits by type leave of any type.
func (r *Room) slackByType(most typed.Limits, held *ofType) int {
	slack := math.MaxInt
	for _, m := range r.readModels() {
		if n, ok := most.Of(m.Type); ok {
			slack = min(slack, 1000*int(n)-held.at(m.Type))
		}
	}
	return slack
}

// types checks each type of GPU that a shape may use, as if all its GPUs were of that type. It returns the shape with
// the types that the limits allow, or the reason why they allow none.
func (l *Limits) types(s work.Shape) (reason.Reason, work.Shape) {
	var first reason.Reason
	var left []string
	need := s.GPUMilli()
	for _, m := range l.room.readModels() {
		if !of(m, &s) {
			continue
		}
		why := l.barsType(m.Type, need)
		switch {
		case why == "" && m.Model != "":
			left = append(left, m.Model)
		case why == "":
			left = append(left, m.Type)
		case first == "":
			first = why
		}
	}
	if first == "" || len(left) == 0 {
		return first, s
	}
	s.GPUType = work.CanonicalGPUType(strings.Join(left, work.GPUTypeOr))
	return "", s
}

// Allow reports whether the limits by type leave enough for a job at these places.
func (l *Limits) Allow(s work.Shape, places []work.TaskPlacement) bool {
	if !l.Typed() {
		return true
	}
	for _, t := range work.TypesOf(places, s, l.room.nodeOf) {
		if l.barsType(t.Type, t.Milli) != "" {
			return false
		}
	}
	return true
}

// Barred is a limit by type that bars a job. Held is in thousandths of a GPU, and Queue is empty if it is a limit of the
// tenant.
type Barred struct {
	Type, Queue string
	Limit, Held int
	Why         reason.Reason
}

// BarredTypes returns a limit that bars each type of GPU that a job of a shape may use; none if some type is left.
func (l *Limits) BarredTypes(s work.Shape) (all []Barred) {
	if !l.Typed() || !s.NeedsGPU() {
		return nil
	}
	if why, _ := l.types(s); why == "" {
		return nil
	}
	seen := map[string]bool{}
	for _, m := range l.room.readModels() {
		if seen[m.Type] || !of(m, &s) {
			continue
		}
		if b, bars := l.barredBy(m.Type, s.GPUMilli()); bars {
			seen[m.Type] = true
			all = append(all, b)
		}
	}
	return all
}

// barredBy returns the limit that bars a type.
func (l *Limits) barredBy(name string, need int) (Barred, bool) {
	if t := l.tenant; t != nil && t.quota != nil {
		if why := t.quota.BarsType(name, t.held.at(name), need); why != "" {
			most, _ := t.quota.MaxByType.Of(name)
			return Barred{Type: name, Limit: int(most), Held: t.held.at(name), Why: why}, true
		}
	}
	for _, q := range l.queue.queues {
		if why := q.queue.BarsType(name, q.held.at(name), need); why != "" {
			most, _ := q.queue.MaxByType.Of(name)
			return Barred{Type: name, Queue: q.queue.Name, Limit: int(most), Held: q.held.at(name), Why: why}, true
		}
	}
	return Barred{}, false
}

func (l *Limits) barsType(name string, need int) reason.Reason {
	b, _ := l.barredBy(name, need)
	return b.Why
}

// NeverByType returns the reason why the limits by type of a tenant and its queue bar a job of a shape even from an
// empty cluster; empty: they do not.
func NeverByType(v View, tenant, queue string, s work.Shape) reason.Reason {
	l := New(v).Of(&work.ClassKey{Queue: queue, Tenant: tenant, Shape: s})
	if !l.Typed() || !s.NeedsGPU() {
		return ""
	}
	none := ofType{read: func(string) int { return 0 }}
	if l.tenant != nil {
		l.tenant.held = none
	}
	for _, q := range l.queue.queues {
		q.held = none
	}
	why, _ := l.types(s)
	return why
}
