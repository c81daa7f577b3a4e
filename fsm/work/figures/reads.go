package figures

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/work"
)

// QueueCounts is how many jobs of a queue there are, by state.
func (s *Sums) QueueCounts(queue string) work.Counts { return s.ofQueue(queue).counts }

// QueueGPUs is the sum of the leases of a queue's jobs, in thousandths of a GPU.
func (s *Sums) QueueGPUs(queue string) int { return s.ofQueue(queue).gpuMilli }

// QueueTreeGPUs is the sum of the leases of the jobs of a queue and of all queues below it, in thousandths of a GPU.
func (s *Sums) QueueTreeGPUs(queue string) int { return s.ofQueue(queue).treeMilli }

// QueueHeld is how many jobs of a queue are queued and held back.
func (s *Sums) QueueHeld(queue string) int { return s.ofQueue(queue).held }

func (s *Sums) ofQueue(name string) figures {
	if q, ok := s.queues.Get(queue{name: name}); ok {
		return *q.figures
	}
	return figures{}
}

// QueueCountsOf is QueueCounts of one tenant's jobs.
func (s *Sums) QueueCountsOf(tenant, queue string) work.Counts { return s.ofPart(tenant, queue).counts }

// QueueHeldOf is QueueHeld of one tenant's jobs.
func (s *Sums) QueueHeldOf(tenant, queue string) int { return s.ofPart(tenant, queue).held }

// QueueGPUsOf is QueueGPUs of one tenant's jobs.
func (s *Sums) QueueGPUsOf(tenant, queue string) int { return s.ofPart(tenant, queue).gpuMilli }

func (s *Sums) ofPart(tenant, queue string) figures {
	if f, ok := s.shares.Get(share{of: part{tenant, queue}}); ok {
		return *f.figures
	}
	return figures{}
}

// HeldOf is how many jobs of one tenant are queued and held back.
func (s *Sums) HeldOf(tenant string) int {
	held := 0
	for f := range s.sharesOf(tenant) {
		held += f.held
	}
	return held
}

// CountsOf is how many jobs of one tenant there are, by state.
func (s *Sums) CountsOf(tenant string) work.Counts {
	var sum work.Counts
	for f := range s.sharesOf(tenant) {
		for state, n := range f.counts {
			sum[state] += n
		}
	}
	return sum
}

// Usage is the use of all queues by a tenant.
func (s *Sums) Usage(tenant string) work.Usage {
	total := figures{counts: s.CountsOf(tenant)}
	for f := range s.sharesOf(tenant) {
		total.gpuMilli += f.gpuMilli
	}
	return total.usage()
}

// sharesOf iterates what a tenant has, queue by queue.
func (s *Sums) sharesOf(tenant string) iter.Seq[*figures] {
	return func(yield func(*figures) bool) {
		s.shares.AscendFrom(share{of: part{tenant: tenant}}, func(f share) bool {
			return f.of.tenant == tenant && yield(f.figures)
		})
	}
}
