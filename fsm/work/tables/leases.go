package tables

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/figures"
	"github.com/mindcoordinator/mind/fsm/work/inuse"
)

type LeaseKey struct {
	Node string
	Job  ident.Job
	Rank uint16
}

type leaseTables struct {
	rows kernel.Table[LeaseKey, *work.Lease]
	// use is the part of each node that the leases and the claims take.
	use inuse.Book
}

func newLeaseTables() (t leaseTables) {
	t.rows = kernel.NewTable[LeaseKey, *work.Lease](recordLease, func(a, b LeaseKey) bool {
		if a.Node != b.Node {
			return a.Node < b.Node
		}
		return a.Job < b.Job || a.Job == b.Job && a.Rank < b.Rank
	})
	t.use = inuse.New()
	return t
}

func (t *leaseTables) freeze() leaseTables {
	return leaseTables{rows: t.rows.Freeze(), use: inuse.Freeze(&t.use)}
}

// Grant makes a lease, and counts what it takes.
func (s *State) Grant(l *work.Lease) {
	s.leases.rows.Put(LeaseKey{l.Node, l.Job, l.Rank}, l)
	inuse.Change(&s.leases.use, l.Node).Add(l)
	if j, ok := s.Job(l.Job); ok {
		figures.Hold(&s.Sums, j, l.GPUMilli(), s.Lineage(j.Queue))
		s.holdTypes(j, l, 1)
	}
}

// Release ends a lease of a job.
func (s *State) Release(k LeaseKey, j *work.Job) bool {
	l, ok := s.leases.rows.Get(k)
	if !ok {
		return false
	}
	s.leases.rows.Delete(k)
	inuse.Change(&s.leases.use, l.Node).Remove(l)
	figures.Hold(&s.Sums, j, -l.GPUMilli(), s.Lineage(j.Queue))
	s.holdTypes(j, l, -1)
	return true
}

// InUse is the part of a node that the leases and the claims take at present. The caller does not change it.
func (s *State) InUse(node string) *work.NodeUse { return inuse.Now(&s.leases.use, node) }

// Leases iterates all leases by node, job and rank.
func (s *rows) Leases() iter.Seq[*work.Lease] { return s.leases.rows.Rows() }

// LeaseCount is how many leases there are.
func (s *rows) LeaseCount() int { return s.leases.rows.Len() }

// LeasesOn iterates the leases on a node, by job.
func (s *rows) LeasesOn(node string) iter.Seq[*work.Lease] {
	return func(yield func(*work.Lease) bool) {
		for l := range s.leases.rows.RowsFrom(LeaseKey{Node: node}) {
			if l.Node != node || !yield(l) {
				return
			}
		}
	}
}
