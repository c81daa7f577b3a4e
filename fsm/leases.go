package fsm

import (
	"iter"
	"math/bits"
)

const recordLease = 40

type leaseKey struct {
	node string
	job  JobID
	rank uint16
}

type nodeUse struct {
	node string
	use  *NodeUse
}

type leaseTables struct {
	rows table[leaseKey, *Lease]
	// use is what the leases take of each node.
	use index[nodeUse]
}

var leaseDomain = domain{
	name: "leases",
	records: []recordDef{
		defineRecords(recordLease, "lease", func(s *state) *table[leaseKey, *Lease] { return &s.leases.rows },
			func(s *state, l *Lease) error {
				l.Node = s.work.name(l.Node)
				s.grant(l)
				return nil
			}),
	},
	open: func(s *state) {
		s.leases.rows = newTable[leaseKey, *Lease](recordLease, func(a, b leaseKey) bool {
			if a.node != b.node {
				return a.node < b.node
			}
			return a.job < b.job || a.job == b.job && a.rank < b.rank
		})
		s.leases.use = newIndex(func(a, b nodeUse) bool { return a.node < b.node })
	},
	freeze: func(s, from *state) {
		s.leases = leaseTables{rows: from.leases.rows.freeze(), use: from.leases.use.freeze()}
	},
	check: checkLeases,
}

// grant makes a lease, and counts what it takes.
func (s *state) grant(l *Lease) {
	s.leases.rows.put(leaseKey{l.Node, l.Job, l.Rank}, l)
	u := s.work.useOf(l.Node)
	u.add(l)
	s.work.touchUse(u)
	if j, ok := s.Job(l.Job); ok {
		s.work.queueOf(j.Queue).gpuMilli += l.gpuMilli()
		s.work.shareOf(j.Tenant, j.Queue).hold(l.gpuMilli())
	}
}

// release ends a lease of a job.
func (s *state) release(k leaseKey, j *Job) bool {
	l, ok := s.leases.rows.get(k)
	if !ok {
		return false
	}
	s.leases.rows.delete(k)
	u := s.work.useOf(l.Node)
	u.remove(l)
	s.work.touchUse(u)
	s.work.queueOf(j.Queue).gpuMilli -= l.gpuMilli()
	s.work.shareOf(j.Tenant, j.Queue).hold(-l.gpuMilli())
	return true
}

// gpuMilli is what the lease holds, in thousandths of a GPU.
func (l *Lease) gpuMilli() int {
	if l.FractionMilli > 0 {
		return int(l.FractionMilli)
	}
	return 1000 * bits.OnesCount64(l.GPUs)
}

func (u *NodeUse) add(l *Lease) {
	u.Tasks++
	u.CPUs += l.CPUs
	u.MemMB += l.MemMB
	if l.FractionMilli == 0 {
		u.Exclusive |= l.GPUs
		return
	}
	for m := l.GPUs; m != 0; m &= m - 1 {
		u.Milli[bits.TrailingZeros64(m)] += l.FractionMilli
	}
	u.Shared |= l.GPUs
}

func (u *NodeUse) remove(l *Lease) {
	u.Tasks--
	u.CPUs -= l.CPUs
	u.MemMB -= l.MemMB
	if l.FractionMilli == 0 {
		u.Exclusive &^= l.GPUs
		return
	}
	for m := l.GPUs; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		u.Milli[i] -= l.FractionMilli
		if u.Milli[i] == 0 {
			u.Shared &^= 1 << i
		}
	}
}

// Use is what the leases take of a node.
func (v *View) Use(node string) NodeUse {
	if u, ok := v.leases.use.tree.Get(nodeUse{node: node}); ok {
		return *u.use
	}
	return NodeUse{}
}

// Leases iterates all leases by node, job and rank.
func (s *state) Leases() iter.Seq[*Lease] { return s.leases.rows.rows() }

// LeaseCount is how many leases there are.
func (s *state) LeaseCount() int { return s.leases.rows.len() }

// LeasesOn iterates the leases on a node, by job.
func (s *state) LeasesOn(node string) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		for l := range s.leases.rows.rowsFrom(leaseKey{node: node}) {
			if l.Node != node || !yield(l) {
				return
			}
		}
	}
}
