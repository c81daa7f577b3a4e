package tables

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// queueFigures is what is counted per queue.
type queueFigures struct {
	counts work.Counts
	// held is how many of the queued ones are held back.
	held int
	// gpuMilli is what the leases of its jobs hold, in thousandths of a GPU.
	gpuMilli int
	// treeMilli is the same of its jobs and those of all queues below it.
	treeMilli int
}

type namedFigures struct {
	name    string
	figures *queueFigures
}

type queueTables struct {
	rows    kernel.Table[string, *work.Queue]
	figures kernel.Index[namedFigures]
	shares  kernel.Index[tenantFigures]
}

func newQueueTables() (t queueTables) {
	t.rows = kernel.NewTable[string, *work.Queue](recordQueue, func(a, b string) bool { return a < b })
	t.figures = kernel.NewIndex(func(a, b namedFigures) bool { return a.name < b.name })
	t.shares = kernel.NewIndex(func(a, b tenantFigures) bool {
		return a.of.tenant < b.of.tenant || a.of.tenant == b.of.tenant && a.of.queue < b.of.queue
	})
	t.rows.Put(work.DefaultQueue, &work.Queue{Name: work.DefaultQueue, Weight: 1})
	return t
}

func (t *queueTables) freeze() queueTables {
	return queueTables{rows: t.rows.Freeze(), figures: t.figures.Freeze(), shares: t.shares.Freeze()}
}

// Queue returns a queue by its name.
func (s *rows) Queue(name string) (*work.Queue, bool) { return s.queues.rows.Get(name) }

// Queues iterates the queues by name.
func (s *rows) Queues() iter.Seq[*work.Queue] { return s.queues.rows.Rows() }

// QueueCounts is how many jobs of a queue there are, by state.
func (v *View) QueueCounts(queue string) work.Counts { return v.figures(queue).counts }

// QueueGPUs is what the leases of a queue's jobs hold, in thousandths of a GPU.
func (v *View) QueueGPUs(queue string) int { return v.figures(queue).gpuMilli }

// QueueTreeGPUs is what the leases of a queue's jobs and of those in all queues below it hold, in thousandths of a GPU.
func (v *View) QueueTreeGPUs(queue string) int { return v.figures(queue).treeMilli }

// QueueHeld is how many jobs of a queue are queued and held back.
func (v *View) QueueHeld(queue string) int { return v.figures(queue).held }

func (v *View) figures(queue string) queueFigures {
	if f, ok := v.queues.figures.Get(namedFigures{name: queue}); ok {
		return *f.figures
	}
	return queueFigures{}
}

// QueueNames lists the queues for a sentence.
func (s *rows) QueueNames() string {
	names := ""
	for q := range s.Queues() {
		if len(names) > 200 {
			return names + ", ..."
		}
		if names != "" {
			names += ", "
		}
		names += q.Name
	}
	return names
}

// Lineage iterates a queue and the queues that it is a part of, from the queue itself up.
func (s *rows) Lineage(queue string) iter.Seq[*work.Queue] {
	return func(yield func(*work.Queue) bool) {
		for range work.MaxQueueDepth {
			q, ok := s.Queue(queue)
			if !ok || !yield(q) || q.Parent == "" {
				return
			}
			queue = q.Parent
		}
	}
}

// SetQueue puts a queue in. What its jobs hold goes with it, from the queues that it was a part of to those that it is a
// part of now.
func (s *State) SetQueue(q *work.Queue) {
	held := 0
	if slot, ok := s.work.queues[q.Name]; ok {
		held = slot.treeMilli
	}
	old, ok := s.Queue(q.Name)
	moved := held != 0 && ok && old.Parent != q.Parent
	if moved {
		s.holdInTree(old.Parent, -held)
		s.holdTypesInTree(q.Name, old.Parent, -1)
	}
	s.queues.rows.Put(q.Name, q)
	if moved {
		s.holdInTree(q.Parent, held)
		s.holdTypesInTree(q.Name, q.Parent, 1)
	}
}

// holdIn counts what a lease of a job in a queue takes, or gives back.
func (s *State) holdIn(queue string, gpuMilli int) {
	s.work.queueOf(queue).gpuMilli += gpuMilli
	s.holdInTree(queue, gpuMilli)
}

// holdInTree counts it for a queue and for those that it is a part of.
func (s *State) holdInTree(queue string, gpuMilli int) {
	if gpuMilli == 0 {
		return
	}
	for q := range s.Lineage(queue) {
		s.work.queueOf(q.Name).treeMilli += gpuMilli
	}
}

// DropQueue takes a queue out.
func (s *State) DropQueue(name string) { s.queues.rows.Delete(name) }

// GPUsIn is what the leases of the jobs of a queue and of those below it hold now, in thousandths of a GPU.
func (s *State) GPUsIn(queue string) int {
	if slot, ok := s.work.queues[queue]; ok {
		return slot.treeMilli
	}
	return 0
}

// UnfinishedIn is how many jobs of a queue are not over, as things are now.
func (s *State) UnfinishedIn(queue string) int {
	if slot, ok := s.work.queues[queue]; ok {
		return work.Unfinished(slot.counts)
	}
	return 0
}

// UsageNow is what a tenant has now in all queues together.
func (s *State) UsageNow(tenant string) work.Usage { return s.work.totalOf(tenant).usage() }
