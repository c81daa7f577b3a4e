package scheduler

import (
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
}

type tenantRoom struct {
	quota *work.Quota
	usage work.Usage
}

type queueRoom struct {
	queue    *work.Queue
	gpuMilli int
}

// limits are those that apply to a class: of its tenant (nil: none), of its queue and of the queues that this is a part of.
type limits struct {
	tenant *tenantRoom
	queues []*queueRoom
}

func newRoom(v View) *room {
	return &room{view: v, tenants: map[string]*tenantRoom{}, queues: map[string][]*queueRoom{}, limited: map[string]*queueRoom{}}
}

// limitsOf finds the limits of a class. Only the classes of tenants with a quota name their tenant.
func (r *room) limitsOf(key work.ClassKey) limits {
	l, asked := limits{}, false
	if key.Tenant != "" {
		if l.tenant, asked = r.tenants[key.Tenant]; !asked {
			if q, ok := r.view.Quota(key.Tenant); ok {
				l.tenant = &tenantRoom{quota: q, usage: r.view.Usage(key.Tenant)}
			}
			r.tenants[key.Tenant] = l.tenant
		}
	}
	if l.queues, asked = r.queues[key.Queue]; !asked {
		l.queues = r.lineage(key.Queue)
		r.queues[key.Queue] = l.queues
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
		if q.MaxGPUs != 0 {
			if r.limited[name] == nil {
				r.limited[name] = &queueRoom{queue: q, gpuMilli: r.view.QueueTreeGPUs(name)}
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
	}
	for _, q := range l.queues {
		if why := q.queue.Bars(q.gpuMilli, s); why != "" {
			return why
		}
	}
	return ""
}

// take counts a placed job.
func (l *limits) take(s work.Shape) {
	if l.tenant != nil {
		l.tenant.usage.Grant(s)
	}
	for _, q := range l.queues {
		q.gpuMilli += s.GPUMilli()
	}
}
