package scheduler

import (
	"strings"

	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// room is what quotas and the limits of queues leave in one pass. Like the capacity of the nodes it only shrinks, so a
// class without room is done for the pass, however many jobs it has.
type room struct {
	view    View
	tenants map[string]*tenantRoom
	queues  map[string][]*queueRoom
	limited map[string]*queueRoom
	// models are the types and models of GPU, read when a limit by type is first met.
	models []gpuModel
}

type gpuModel struct{ name, model string }

type tenantRoom struct {
	quota *work.Quota
	usage work.Usage
	held  ofType
	spent uint64
}

// ofType is what is held of types of GPU, read when it is first asked for.
type ofType struct {
	read  func(name string) int
	milli map[string]int
}

func (o *ofType) at(name string) int {
	n, ok := o.milli[name]
	if !ok {
		if n = o.read(name); o.milli == nil {
			o.milli = map[string]int{}
		}
		o.milli[name] = n
	}
	return n
}

func (o *ofType) add(name string, milli int) { o.milli[name] = o.at(name) + milli }

type queueRoom struct {
	queue    *work.Queue
	gpuMilli int
	held     ofType
}

// limits are those that apply to a class: of its tenant (nil: none), of its queue and of the queues that this is a part of.
type limits struct {
	tenant *tenantRoom
	queues []*queueRoom
	room   *room
	// typed: one of them is by type of GPU.
	typed bool
}

func newRoom(v View) *room {
	return &room{view: v, tenants: map[string]*tenantRoom{}, queues: map[string][]*queueRoom{}, limited: map[string]*queueRoom{}}
}

// limitsOf finds the limits of a class. Only the classes of tenants with a quota name their tenant.
func (r *room) limitsOf(key work.ClassKey) limits {
	l, asked := limits{room: r}, false
	if key.Tenant != "" {
		if l.tenant, asked = r.tenants[key.Tenant]; !asked {
			if q, ok := r.view.Quota(key.Tenant); ok {
				l.tenant = &tenantRoom{quota: q, usage: r.view.Usage(key.Tenant), spent: r.view.Budget(key.Tenant).SpentBy(r.view.Now())}
				l.tenant.held.read = func(name string) int { return r.view.HeldOfType(key.Tenant, name) }
			}
			r.tenants[key.Tenant] = l.tenant
		}
	}
	if l.queues, asked = r.queues[key.Queue]; !asked {
		l.queues = r.lineage(key.Queue)
		r.queues[key.Queue] = l.queues
	}
	l.typed = l.tenant != nil && len(l.tenant.quota.MaxByType) > 0
	for _, q := range l.queues {
		l.typed = l.typed || len(q.queue.MaxByType) > 0
	}
	return l
}

// lineage finds the queues with a limit from one of them up.
func (r *room) lineage(name string) (found []*queueRoom) {
	for range work.MaxQueueDepth {
		q, ok := r.view.Queue(name)
		if !ok {
			break
		}
		if q.MaxGPUs != 0 || len(q.MaxByType) > 0 {
			if r.limited[name] == nil {
				of := q.Name
				r.limited[name] = &queueRoom{queue: q, gpuMilli: r.view.QueueTreeGPUs(name)}
				r.limited[name].held.read = func(name string) int { return r.view.QueueTreeOfType(of, name) }
			}
			found = append(found, r.limited[name])
		}
		if name = q.Parent; name == "" {
			break
		}
	}
	return found
}

// bars says why no more job of a shape may run; empty: one may.
func (l *limits) bars(s work.Shape) reason.Reason {
	if l.tenant != nil {
		if why := l.tenant.quota.Bars(l.tenant.usage, s); why != "" {
			return why
		}
		if why := l.tenant.quota.BarsHours(l.tenant.spent, l.room.view.Now(), s); why != "" {
			return why
		}
	}
	for _, q := range l.queues {
		if why := q.queue.Bars(q.gpuMilli, s); why != "" {
			return why
		}
	}
	if l.typed {
		why, _ := l.types(s)
		return why
	}
	return ""
}

// take counts a placed job.
func (l *limits) take(s work.Shape, tasks []work.TaskPlacement) {
	if l.tenant != nil {
		l.tenant.usage.Grant(s)
	}
	for _, q := range l.queues {
		q.gpuMilli += s.GPUMilli()
	}
	if !l.typed {
		return
	}
	for _, t := range work.TypesOf(tasks, s, l.room.view.Node) {
		if l.tenant != nil {
			l.tenant.held.add(t.Type, t.Milli)
		}
		for _, q := range l.queues {
			q.held.add(t.Type, t.Milli)
		}
	}
}

// narrow is a shape without the types of GPU of which a limit leaves too few.
func (l *limits) narrow(s work.Shape) work.Shape {
	if !l.typed || !s.NeedsGPU() {
		return s
	}
	_, s = l.types(s)
	return s
}

// types goes through the types of GPU that a shape may use, as if all its GPUs were of one. It returns why none of them is left, or
// the shape with those that are.
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

// NeverByType says why the limits by type of a tenant and its queue keep a job of a shape from running even if it were alone; empty:
// they do not.
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
