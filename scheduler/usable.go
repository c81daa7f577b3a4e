package scheduler

import (
	"math/bits"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
)

// usable is what tasks of one shape could use of a node if nothing else were on it. It does not change while promises are
// decided, and most of the time of a search goes into asking what fits when.
type usable struct {
	could bool
	gpus  uint64
}

// usableBy has it for each site.
func (t *sites) usableBy(s work.Shape) []usable {
	all, known := t.usable[s]
	if !known {
		all = make([]usable, len(t.all))
		for i, site := range t.all {
			all[i] = usableOf(site.node, s)
		}
		t.usable[s] = all
	}
	return all
}

func usableOf(n *work.Node, s work.Shape) usable {
	u := usable{could: n.State == v1.NodeState_READY && n.CouldHold(s)}
	if u.could && s.NeedsGPU() {
		u.gpus = work.Eligible(n, &work.NodeUse{}, s)
	}
	return u
}

// fits says whether choose finds GPUs, without choosing them.
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
		_, linked := choose(n, use, s)
		return linked
	}
	return true
}
