package scheduler

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// room tracks, in one pass, how much more quotas and limits of queues allow. Like the capacity of the nodes it only
// shrinks, so a class without room stays blocked for the pass.
type room struct {
	view    View
	tenants map[string]*tenantRoom
	queues  map[string][]*queueRoom
	limited map[string]*queueRoom
	// models are the types and models of GPU. They are read when the first limit by type is checked.
	models []gpuModel
	arrays map[ident.Job]*arrayRoom
}

// arrayRoom counts the elements of an array that run, and bounds them.
type arrayRoom struct{ live, most uint32 }

type tenantRoom struct {
	quota *work.Quota
	usage work.Usage
	held  ofType
	spent uint64
}

// ofType counts, by type, the GPUs that a tenant or a queue holds. The count of a type is read when it is first needed.
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

// limits are the limits of a class: the quota of its tenant (nil: none), and the limits of its queue and of the queues
// above.
type limits struct {
	tenant *tenantRoom
	array  *arrayRoom
	queues []*queueRoom
	room   *room
	// typed: one of the limits is by type of GPU.
	typed bool
}

func newRoom(v View) *room {
	return &room{view: v, tenants: map[string]*tenantRoom{}, queues: map[string][]*queueRoom{}, limited: map[string]*queueRoom{}, arrays: map[ident.Job]*arrayRoom{}}
}

// limitsOf returns the limits of a class. The key of a class names its tenant only if the tenant has a quota.
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
	if key.Array != 0 {
		if l.array, asked = r.arrays[key.Array]; !asked {
			if j, ok := r.view.Array(key.Array); ok {
				l.array = &arrayRoom{live: j.Array.Rows.Live, most: j.MaxParallel}
			}
			r.arrays[key.Array] = l.array
		}
	}
	return l
}

// lineage returns a queue and the queues above it, without those that have no limit.
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

// bars returns the reason why the limits allow no more jobs of a shape; empty: they allow one.
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
	if l.array != nil && l.array.live >= l.array.most {
		return reason.New(reason.MaxParallelReached, int(l.array.live), int(l.array.most))
	}
	if l.typed {
		why, _ := l.types(s)
		return why
	}
	return ""
}

// take counts a job that was placed against the limits.
func (l *limits) take(s work.Shape, tasks []work.TaskPlacement) {
	if l.tenant != nil {
		l.tenant.usage.Grant(s)
	}
	for _, q := range l.queues {
		q.gpuMilli += s.GPUMilli()
	}
	if l.array != nil {
		l.array.live++
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
