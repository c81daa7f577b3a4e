package scheduler

import (
	"strings"

	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// gpuModel is a type of GPU and one of its models.
type gpuModel struct{ name, model string }

// narrow returns a shape without the types of GPU of which a limit leaves too few.
func (l *limits) narrow(s work.Shape) work.Shape {
	if !l.typed || !s.NeedsGPU() {
		return s
	}
	_, s = l.types(s)
	return s
}

// types checks each type of GPU that a shape may use, as if all its GPUs were of that type. It returns the shape with
// the types that the limits allow, or the reason why they allow none.
func (l *limits) types(s work.Shape) (reason.Reason, work.Shape) {
	if l.room.models == nil {
		for name, model := range l.room.view.GPUModels() {
			l.room.models = append(l.room.models, gpuModel{name, model})
		}
	}
	var first reason.Reason
	var left []string
	need := s.GPUMilli()
	for _, m := range l.room.models {
		if !work.GPUMatches(&work.GPU{Type: m.name, Model: m.model, MemMB: s.GPUMemMB}, &s) {
			continue
		}
		why := l.barsType(m.name, need)
		switch {
		case why == "" && m.model != "":
			left = append(left, m.model)
		case why == "":
			left = append(left, m.name)
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

func (l *limits) barsType(name string, need int) reason.Reason {
	if l.tenant != nil {
		if why := l.tenant.quota.BarsType(name, l.tenant.held.at(name), need); why != "" {
			return why
		}
	}
	for _, q := range l.queues {
		if why := q.queue.BarsType(name, q.held.at(name), need); why != "" {
			return why
		}
	}
	return ""
}

// NeverByType returns the reason why the limits by type of a tenant and its queue bar a job of a shape even from an
// empty cluster; empty: they do not.
func NeverByType(v View, tenant, queue string, s work.Shape) reason.Reason {
	l := newRoom(v).limitsOf(work.ClassKey{Queue: queue, Tenant: tenant, Shape: s})
	if !l.typed || !s.NeedsGPU() {
		return ""
	}
	none := func(string) int { return 0 }
	if l.tenant != nil {
		l.tenant.held.read = none
	}
	for _, q := range l.queues {
		q.held.read = none
	}
	why, _ := l.types(s)
	return why
}
