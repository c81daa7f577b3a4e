package tables

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/work/figures"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

type queueTables struct {
	rows kernel.Table[string, *work.Queue]
}

func newQueueTables() (t queueTables) {
	t.rows = kernel.NewTable[string, *work.Queue](recordQueue, func(a, b string) bool { return a < b })
	t.rows.Put(work.DefaultQueue, &work.Queue{Name: work.DefaultQueue, Weight: 1})
	return t
}

func (t *queueTables) freeze() queueTables {
	return queueTables{rows: t.rows.Freeze()}
}

// Queue returns a queue by its name.
func (s *rows) Queue(name string) (*work.Queue, bool) { return s.queues.rows.Get(name) }

// Queues iterates the queues by name.
func (s *rows) Queues() iter.Seq[*work.Queue] { return s.queues.rows.Rows() }

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

// SetQueue puts a queue in. The leases of its jobs go with it, from the queues that it was a part of to those that it is a
// part of now.
func (s *State) SetQueue(q *work.Queue) {
	held := s.GPUsIn(q.Name)
	old, ok := s.Queue(q.Name)
	moved := held != 0 && ok && old.Parent != q.Parent
	if moved {
		figures.HoldInTree(&s.Sums, -held, s.Lineage(old.Parent))
		s.holdTypesInTree(q.Name, old.Parent, -1)
	}
	s.queues.rows.Put(q.Name, q)
	if moved {
		figures.HoldInTree(&s.Sums, held, s.Lineage(q.Parent))
		s.holdTypesInTree(q.Name, q.Parent, 1)
	}
}

// DropQueue takes a queue out.
func (s *State) DropQueue(name string) { s.queues.rows.Delete(name) }

// GPUsIn is the present sum of the leases of the jobs of a queue and of those below it, in thousandths of a GPU.
func (s *State) GPUsIn(queue string) int { return figures.TreeNow(&s.Sums, queue) }

// UnfinishedIn is how many jobs of a queue are not over, as things are now.
func (s *State) UnfinishedIn(queue string) int { return figures.UnfinishedNow(&s.Sums, queue) }

// UsageNow is the present use of all queues by a tenant.
func (s *State) UsageNow(tenant string) work.Usage { return figures.UsageNow(&s.Sums, tenant) }
