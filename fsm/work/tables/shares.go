package tables

import (
	"github.com/mindcoordinator/mind/fsm/work"
)

// tenantQueue is a tenant's part of a queue.
type tenantQueue struct{ tenant, queue string }

// tenantFigures is what one tenant has in one queue: all that it is told of how full a queue is.
type tenantFigures struct {
	of      tenantQueue
	figures *queueFigures
}

// QueueCountsOf is QueueCounts of one tenant's jobs.
func (v *View) QueueCountsOf(tenant, queue string) work.Counts { return v.share(tenant, queue).counts }

// QueueHeldOf is QueueHeld of one tenant's jobs.
func (v *View) QueueHeldOf(tenant, queue string) int { return v.share(tenant, queue).held }

// HeldOf is how many jobs of one tenant are queued and held back.
func (v *View) HeldOf(tenant string) int {
	held := 0
	v.queues.shares.AscendFrom(tenantFigures{of: tenantQueue{tenant: tenant}}, func(f tenantFigures) bool {
		if f.of.tenant != tenant {
			return false
		}
		held += f.figures.held
		return true
	})
	return held
}

// QueueGPUsOf is QueueGPUs of one tenant's jobs.
func (v *View) QueueGPUsOf(tenant, queue string) int { return v.share(tenant, queue).gpuMilli }

// CountsOf is Counts of one tenant's jobs.
func (v *View) CountsOf(tenant string) work.Counts {
	var sum work.Counts
	v.queues.shares.AscendFrom(tenantFigures{of: tenantQueue{tenant: tenant}}, func(f tenantFigures) bool {
		if f.of.tenant != tenant {
			return false
		}
		for state, n := range f.figures.counts {
			sum[state] += n
		}
		return true
	})
	return sum
}

func (v *View) share(tenant, queue string) queueFigures {
	if f, ok := v.queues.shares.Get(tenantFigures{of: tenantQueue{tenant, queue}}); ok {
		return *f.figures
	}
	return queueFigures{}
}
