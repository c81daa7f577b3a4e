package picture

import (
	"cmp"
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/promises"
)

// Later is a node with the times at which its leases end, so that it can be seen as it will be.
type Later struct {
	*Node
	// Leases are sorted by the time at which they end; leases with an unknown end are last.
	Leases []Leaving
}

// Leaving is a lease with the time at which it ends at the latest, in Unix nanoseconds; 0: not known.
type Leaving struct {
	*work.Lease
	At int64
}

// Leases has the leases of nodes, and their jobs.
type Leases interface {
	LeasesOn(node string) iter.Seq[*work.Lease]
	Job(ident.Job) (*work.Job, bool)
}

// See returns a node with the times at which its leases end.
func (n *Node) See(v Leases, now int64) *Later {
	l := &Later{Node: n}
	if n.Use.Tasks == 0 {
		return l
	}
	for lease := range v.LeasesOn(n.ID) {
		l.Leases = append(l.Leases, Leaving{lease, Leaves(v, lease, now)})
	}
	l.sort()
	return l
}

func (l *Later) sort() {
	slices.SortStableFunc(l.Leases, func(a, b Leaving) int {
		return cmp.Compare(uint64(a.At-1), uint64(b.At-1)) // 0 is last
	})
}

// When returns the part of the node that is in use at a time.
func (l *Later) When(at int64) work.NodeUse {
	use := *l.Use
	for i := range l.Leases {
		if e := &l.Leases[i]; e.At != 0 && e.At <= at {
			use.Remove(e.Lease)
		}
	}
	return use
}

// Leaves returns the time at which a lease ends at the latest; 0: unknown. A lease that should have ended by now is
// expected to end at once.
func Leaves(v Leases, l *work.Lease, now int64) int64 {
	j, ok := v.Job(l.Job)
	if !ok {
		return 0
	}
	at := promises.Leaves(j, l.GrantedAt, now)
	if at == 0 {
		return 0
	}
	return max(at, now+1)
}
