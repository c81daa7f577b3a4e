package place

import (
	"math/bits"

	"github.com/mindcoordinator/mind/fsm/work"
)

// Withheld names resources of a node that are kept from jobs, as far as they are free.
type Withheld struct {
	Node string
	work.Claimed
}

// held has the resources that were taken out of a host.
type held struct {
	host         int
	free, shared uint64
	cpus, mem    uint32
}

// Withhold reserves exactly the given resources, and returns those of the last call to the pool. So the capacity may
// grow, which a Fit that was made before does not see.
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
		at, ok := p.hostOf(all[i].Node)
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

// TakeAt takes capacity for a task at a given place. It returns false if the place is not free.
func (p *Pool) TakeAt(t *work.TaskPlacement, s *work.Shape) bool {
	at, ok := p.hostOf(t.Node)
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
