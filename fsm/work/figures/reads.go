package figures

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/changes"
)

// View reads the figures as of the last Flush. Verbs have no View: they read TreeNow, UnfinishedNow and UsageNow, which know what
// the present entry has changed.
type View struct{ sums *Sums }

// ViewOf returns what there is to read of frozen figures.
func ViewOf(s *Sums) View { return View{s} }

// QueueCounts is how many jobs of a queue there are, by state.
func (v View) QueueCounts(queue string) work.Counts { return v.ofQueue(queue).counts }

// QueueGPUs is the sum of the leases of a queue's jobs, in thousandths of a GPU.
func (v View) QueueGPUs(queue string) int { return v.ofQueue(queue).gpuMilli }

// QueueTreeGPUs is the sum of the leases of the jobs of a queue and of all queues below it, in thousandths of a GPU.
func (v View) QueueTreeGPUs(queue string) int { return v.ofQueue(queue).treeMilli }

// QueueHeld is how many jobs of a queue are queued and held back.
func (v View) QueueHeld(queue string) int { return v.ofQueue(queue).held }

func (v View) ofQueue(name string) figures {
	if q, ok := v.sums.queues.Get(queue{name: name}); ok {
		return *q.figures
	}
	return figures{}
}

// QueueCountsOf is QueueCounts of one tenant's jobs.
func (v View) QueueCountsOf(tenant, queue string) work.Counts { return v.ofPart(tenant, queue).counts }

// QueueHeldOf is QueueHeld of one tenant's jobs.
func (v View) QueueHeldOf(tenant, queue string) int { return v.ofPart(tenant, queue).held }

// QueueGPUsOf is QueueGPUs of one tenant's jobs.
func (v View) QueueGPUsOf(tenant, queue string) int { return v.ofPart(tenant, queue).gpuMilli }

func (v View) ofPart(tenant, queue string) figures {
	if f, ok := v.sums.shares.Get(share{of: part{tenant, queue}}); ok {
		return *f.figures
	}
	return figures{}
}

// HeldOf is how many jobs of one tenant are queued and held back.
func (v View) HeldOf(tenant string) int {
	held := 0
	for f := range v.sharesOf(tenant) {
		held += f.held
	}
	return held
}

// CountsOf is how many jobs of one tenant there are, by state.
func (v View) CountsOf(tenant string) work.Counts {
	var sum work.Counts
	for f := range v.sharesOf(tenant) {
		for state, n := range f.counts {
			sum[state] += n
		}
	}
	return sum
}

// TenantsChanged is a mark behind the tenants whose figures, quota or GPUs by type have changed. So the tenants between the
// marks of two views are those that differ in this, beside some that do not.
func (v View) TenantsChanged() changes.Mark[string] { return v.sums.changed }

// Usage is the use of all queues by a tenant.
func (v View) Usage(tenant string) work.Usage {
	total := figures{counts: v.CountsOf(tenant)}
	for f := range v.sharesOf(tenant) {
		total.gpuMilli += f.gpuMilli
		total.submissions += f.submissions
		total.specBytes += f.specBytes
	}
	return total.usage()
}

// sharesOf iterates what a tenant has, queue by queue.
func (v View) sharesOf(tenant string) iter.Seq[*figures] {
	return func(yield func(*figures) bool) {
		v.sums.shares.AscendFrom(share{of: part{tenant: tenant}}, func(f share) bool {
			return f.of.tenant == tenant && yield(f.figures)
		})
	}
}
