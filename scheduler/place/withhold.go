package place

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/fsm/work"
)

// Withheld is what is kept of a node from the jobs that are placed: what of it is free.
type Withheld struct {
	Node string
	work.Claimed
}

// held is what was taken out of a host.
type held struct {
	host         int
	free, shared uint64
	cpus, mem    uint32
}

// Withhold keeps this and nothing else from the jobs that are placed from now on. So the capacity may grow: a Fit of before
// does not see what it got.
func (p *Pool) Withhold(all []Withheld) {
	for _, w := range p.withheld {
		h := &p.hosts[w.host]
		p.leave(w.host)
		h.free |= w.free
		h.shared |= w.shared
		h.cpus += w.cpus
		h.mem += w.mem
		p.enter(w.host)
	}
	p.withheld = p.withheld[:0]
	for i := range all {
		at, ok := p.hostNamed(all[i].Node)
		if !ok {
			continue
		}
		h := &p.hosts[at]
		w := held{at, h.free & all[i].GPUs, h.shared & all[i].GPUs, min(h.cpus, all[i].CPUs), min(h.mem, all[i].MemMB)}
		p.leave(at)
		h.free &^= w.free
		h.shared &^= w.shared
		h.cpus -= w.cpus
		h.mem -= w.mem
		p.enter(at)
		p.withheld = append(p.withheld, w)
		p.taken = append(p.taken, at)
	}
}

// TakeAt takes capacity for a task at a given place; false: it is not free.
func (p *Pool) TakeAt(t *work.TaskPlacement, s *work.Shape) bool {
	at, ok := p.hostNamed(t.Node)
	if !ok {
		return false
	}
	h := &p.hosts[at]
	if h.cpus < s.CPUDemand() || h.mem < s.MemMB {
		return false
	}
	switch {
	case s.FractionMilli > 0:
		g := bits.TrailingZeros64(t.GPUs)
		if h.free&t.GPUs == 0 && (h.shared&t.GPUs == 0 || h.left[g] < s.FractionMilli) {
			return false
		}
	case t.GPUs&^h.free != 0:
		return false
	}
	p.take(at, s, t.GPUs)
	return true
}

// hostNamed finds the host of a node; false: it is not ready. Hosts are in the order of the nodes.
func (p *Pool) hostNamed(node string) (int, bool) {
	return slices.BinarySearchFunc(p.hosts, node, func(h host, id string) int { return strings.Compare(h.node.ID, id) })
}
