package place

import (
	"math/bits"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/hardware"
)

// Touched returns the number of hosts that the last Kept.Sync has read again. A search that failed before still fails if
// no task fits on any of them, because all other hosts have at most the capacity that they had.
func (p *Pool) Touched() int { return len(p.touched) }

// Reopened reports whether a task of a shape fits now on a touched host that is not barred. For a job of one task it is
// exact, if only its shape limits its places.
func (p *Pool) Reopened(s *work.Shape, barred Hosts) bool {
	hosts, known := p.reopened[*s]
	if !known {
		hosts = p.touchedFor(s)
		if p.reopened == nil {
			p.reopened = map[work.Shape][]int{}
		}
		p.reopened[*s] = hosts
	}
	return p.FitsOn(hosts, s, barred)
}

// Spots are some nodes of one pool.
type Spots []int

// SpotsOf returns the nodes of some places. Nodes that are not ready are left out.
func (p *Pool) SpotsOf(places []Withheld) Spots {
	var spots Spots
	for i := range places {
		if at, ok := p.hostOf(places[i].Node); ok {
			spots = append(spots, at)
		}
	}
	return spots
}

// FitsOn reports whether a task of a shape fits on one of these nodes that is not barred.
func (p *Pool) FitsOn(on Spots, s *work.Shape, barred Hosts) bool {
	excluded := p.excluded(s.Exclude)
	for _, i := range on {
		if barred.set != nil && barred.set.has(i) || excluded != nil && excluded.has(i) {
			continue
		}
		if gpus, ok := p.hosts[i].kind.suits(s, p.keys); ok && p.holds(i, s, gpus) {
			return true
		}
	}
	return false
}

// touchedFor returns the touched hosts with room for a task. Capacity only shrinks in a pass, so no others get room.
func (p *Pool) touchedFor(s *work.Shape) []int {
	var found []int
	for _, i := range p.touched {
		if gpus, ok := p.hosts[i].kind.suits(s, p.keys); ok && p.holds(i, s, gpus) {
			found = append(found, i)
		}
	}
	return found
}

// holds reports whether a host has room for a task on the given GPUs.
func (p *Pool) holds(i int, s *work.Shape, suited uint64) bool {
	h := &p.hosts[i]
	if h.group.lacksRoom(s, suited) {
		return false
	}
	if s.Topology != work.TopologyNVLink || s.GPUs <= 1 || s.FractionMilli > 0 {
		return true
	}
	_, ok := h.wiring().Pick(h.free&suited, int(s.GPUs), true)
	return ok
}

// suits returns the GPUs of a kind of host that a shape could use, and false if the kind does not meet its needs.
func (k *kind) suits(s *work.Shape, keys []string) (uint64, bool) {
	if !k.selected(s.Selector, keys) {
		return 0, false
	}
	gpus := hardware.Suiting(k.gpus, s)
	return gpus, !s.NeedsGPU() || bits.OnesCount64(gpus) >= max(1, int(s.GPUs))
}
