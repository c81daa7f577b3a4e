package tables

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/work/figures"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

type LeaseKey struct {
	Node string
	Job  ident.Job
	Rank uint16
}

type nodeUse struct {
	node string
	use  *work.NodeUse
}

type leaseTables struct {
	rows kernel.Table[LeaseKey, *work.Lease]
	// use is the part of each node that the leases take.
	use kernel.Index[nodeUse]
}

func newLeaseTables() (t leaseTables) {
	t.rows = kernel.NewTable[LeaseKey, *work.Lease](recordLease, func(a, b LeaseKey) bool {
		if a.Node != b.Node {
			return a.Node < b.Node
		}
		return a.Job < b.Job || a.Job == b.Job && a.Rank < b.Rank
	})
	t.use = kernel.NewIndex(func(a, b nodeUse) bool { return a.node < b.node })
	return t
}

func (t *leaseTables) freeze() leaseTables {
	return leaseTables{rows: t.rows.Freeze(), use: t.use.Freeze()}
}

// Grant makes a lease, and counts what it takes.
func (s *State) Grant(l *work.Lease) {
	s.leases.rows.Put(LeaseKey{l.Node, l.Job, l.Rank}, l)
	u := s.work.useOf(l.Node)
	u.Add(l)
	s.work.touchUse(u)
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
	u := s.work.useOf(l.Node)
	u.Remove(l)
	s.work.touchUse(u)
	figures.Hold(&s.Sums, j, -l.GPUMilli(), s.Lineage(j.Queue))
	s.holdTypes(j, l, -1)
	return true
}

// InUse is the part of a node that the leases take at present. The caller does not change it.
func (s *State) InUse(node string) *work.NodeUse { return &s.work.useOf(node).NodeUse }

// Use is the part of a node that the leases take.
func (v *View) Use(node string) work.NodeUse {
	if u, ok := v.leases.use.Get(nodeUse{node: node}); ok {
		return *u.use
	}
	return work.NodeUse{}
}

// Uses iterates the parts of nodes that the leases take, in the order of the nodes. The figures of a node are the same
// in every view until one of its leases changes.
func (v *View) Uses() iter.Seq2[string, *work.NodeUse] {
	return func(yield func(string, *work.NodeUse) bool) {
		v.leases.use.All()(func(u nodeUse) bool { return yield(u.node, u.use) })
	}
}

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
