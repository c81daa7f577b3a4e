package reserve

import (
	"math/bits"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/hardware"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// usable is the part of a node that tasks of one shape could use if the node were empty. It is kept for all decisions
// about reserved starts, because a search for one spends most of its time in fits.
type usable struct {
	could bool
	gpus  uint64
	// equal is hardware.Equal of the node for the shape; empty: it was not asked for.
	equal string
}

// usableBy returns the usable part of each site for a shape.
func (t *sites) usableBy(s work.Shape) []usable {
	all, known := t.usable[s]
	if !known {
		all = make([]usable, len(t.all))
		for i, site := range t.all {
			all[i] = usableOf(site.Node.Node, s)
		}
		t.usable[s] = all
	}
	return all
}

func (u *usable) equalOf(n *work.Node, s *work.Shape) string {
	if u.equal == "" {
		u.equal = hardware.Equal(n.GPUs, s)
	}
	return u.equal
}

func usableOf(n *work.Node, s work.Shape) usable {
	u := usable{could: n.State == v1.NodeState_READY && n.CouldHold(s)}
	if u.could && s.NeedsGPU() {
		u.gpus = work.Eligible(n, &work.NodeUse{}, s)
	}
	return u
}

// fits reports whether choose would find GPUs, and does not choose them.
func (u *usable) fits(n *work.Node, use *work.NodeUse, s work.Shape) bool {
	if s.CPUDemand() > use.FreeCPUs(n) || s.MemMB > use.FreeMemMB(n) {
		return false
	}
	free := u.gpus &^ (use.Exclusive | use.Claimed.GPUs)
	switch {
	case s.FractionMilli > 0:
		for m := free; m != 0; m &= m - 1 {
			if use.Milli[bits.TrailingZeros64(m)]+s.FractionMilli <= 1000 {
				return true
			}
		}
		return false
	case bits.OnesCount64(free&^use.Shared) < int(s.GPUs):
		return false
	case s.Topology == work.TopologyNVLink && s.GPUs > 1:
		_, linked := picture.Choose(n, use, s)
		return linked
	}
	return true
}
