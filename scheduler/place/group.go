package place

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/fsm/work"
)

// load is the free capacity of a host. Hosts with the same load are interchangeable for every shape, except for the
// links between their GPUs.
type load struct {
	kind      *kind
	cpus, mem uint32
	// free are the free GPUs of a host whose GPUs differ. If all are alike, only their number counts.
	free   uint64
	number uint8
	// parts are the remainders of the shared GPUs, two bytes each, the largest first. If the GPUs differ, the index is
	// before each remainder.
	parts string
}

// group is the set of hosts with the same load. A placement examines groups, not hosts.
type group struct {
	load
	hosts bitset
	count int
	// left has the remainders of parts as numbers. value is the value of the load at the pool's prices.
	left  []uint16
	value float64
	// scores are those that are known, by the number of the shape.
	scores []score
}

func (p *Pool) loadOf(h *host) load {
	l := load{kind: h.kind, cpus: h.cpus, mem: h.mem, number: uint8(bits.OnesCount64(h.free))}
	if !h.kind.alike {
		l.free = h.free
	}
	if h.shared == 0 {
		return l
	}
	b := p.scratch[:0]
	if h.kind.alike {
		var left [work.MaxGPUs]uint16
		n := 0
		for rest := h.shared; rest != 0; rest &= rest - 1 {
			left[n] = h.left[bits.TrailingZeros64(rest)]
			n++
		}
		slices.SortFunc(left[:n], func(a, b uint16) int { return cmp.Compare(b, a) })
		for _, m := range left[:n] {
			b = binary.BigEndian.AppendUint16(b, m)
		}
	} else {
		for rest := h.shared; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			b = binary.BigEndian.AppendUint16(append(b, byte(i)), h.left[i])
		}
	}
	p.scratch = b
	l.parts = string(b)
	return l
}

// enter adds a host to the group of its load.
func (p *Pool) enter(i int) {
	h := &p.hosts[i]
	l := p.loadOf(h)
	g := p.groups[l]
	if g == nil {
		g = p.newGroup(l)
	}
	if g.count == 0 {
		if g.hosts == nil {
			g.hosts = newBitset(len(p.hosts))
		}
		g.kind.log[g.number] = append(g.kind.log[g.number], g)
	}
	g.hosts.add(i)
	g.count++
	g.kind.counts[g.number]++
	g.kind.most = max(g.kind.most, int(g.number))
	h.group = g
}

func (p *Pool) leave(i int) {
	g := p.hosts[i].group
	g.hosts.remove(i)
	g.count--
	k := g.kind
	k.counts[g.number]--
	for k.most > 0 && k.counts[k.most] == 0 {
		k.most--
	}
}

func (p *Pool) newGroup(l load) *group {
	g := &group{load: l}
	size := 2
	if !l.kind.alike {
		size = 3
	}
	for i := 0; i < len(l.parts); i += size {
		g.left = append(g.left, binary.BigEndian.Uint16([]byte(l.parts[i+size-2:i+size])))
	}
	if p.prices != nil {
		g.value = p.prices.Value(l.kind.terms, l.cpus, l.mem, int(l.number), g.left)
	}
	p.groups[l] = g
	l.kind.groups = append(l.kind.groups, g)
	return g
}

// lacksRoom reports whether no host of the group has room for a task. It ignores the links between the GPUs.
func (g *group) lacksRoom(s *work.Shape, suited uint64) bool {
	if g.cpus < s.CPUDemand() || g.mem < s.MemMB {
		return true
	}
	switch {
	case s.FractionMilli > 0:
		return g.opens(suited) == 0 && g.bestPart(s, suited, nil) == 0
	case g.kind.alike:
		return uint16(g.number) < s.GPUs
	}
	return bits.OnesCount64(g.free&suited) < int(s.GPUs)
}

// opens returns the number of free GPUs that a task may use.
func (g *group) opens(suited uint64) int {
	if g.kind.alike {
		return int(g.number)
	}
	return bits.OnesCount64(g.free & suited)
}

// bestPart returns the remainder that a fraction should go to: the smallest in which it fits, or with loss the one with
// the smallest loss; 0: it fits into none.
func (g *group) bestPart(s *work.Shape, suited uint64, loss func(left uint16) float64) uint16 {
	best, least := uint16(0), 0.0
	for i, left := range g.left {
		if left < s.FractionMilli || left == best {
			continue
		}
		if !g.kind.alike && suited&(1<<g.parts[3*i]) == 0 {
			continue
		}
		if loss == nil {
			if best == 0 || left < best {
				best = left
			}
		} else if l := loss(left); best == 0 || l < least {
			best, least = left, l
		}
	}
	return best
}

// score computes the score of a task on a host of the group.
func (p *Pool) score(g *group, s *work.Shape, suited uint64) (float64, uint16) {
	if s.Loose {
		return p.looseScore(g, s, suited)
	}
	if p.prices == nil {
		return p.simpleScore(g, s, suited)
	}
	cpus, mem := g.cpus-s.CPUDemand(), g.mem-s.MemMB
	if s.FractionMilli == 0 {
		return p.loss(g, cpus, mem, int(g.number)-int(s.GPUs), g.left), 0
	}
	least, from := 0.0, uint16(0)
	loss := func(left uint16) float64 {
		l := p.loss(g, cpus, mem, int(g.number), p.cut(g.left, left, s.FractionMilli))
		if from == 0 || l < least {
			least, from = l, left
		}
		return l
	}
	g.bestPart(s, suited, loss)
	if g.opens(suited) > 0 {
		l := p.loss(g, cpus, mem, int(g.number)-1, p.cut(g.left, 0, s.FractionMilli))
		if from == 0 || l < least {
			least, from = l, whole
		}
	}
	return least, from
}

// loss returns the value that a host of the group loses if the given capacity is left on it. It is rounded, so that
// places of equal cost compare equal, in whatever order the sums were made.
func (p *Pool) loss(g *group, cpus, mem uint32, free int, left []uint16) float64 {
	return math.Round((g.value-p.prices.Value(g.kind.terms, cpus, mem, free, left))*1024) / 1024
}

// simpleScore scores by best fit: hosts with the fewest free GPUs first, and for fractions the fullest GPU.
func (p *Pool) simpleScore(g *group, s *work.Shape, suited uint64) (float64, uint16) {
	if s.FractionMilli > 0 {
		if from := g.bestPart(s, suited, nil); from > 0 {
			return float64(from), from
		}
		return whole + float64(g.number), whole
	}
	return float64(g.number), 0
}

// looseScore scores by worst fit: hosts with the most free GPUs first, for jobs without GPUs those with the most CPUs,
// and for fractions the emptiest GPU.
func (p *Pool) looseScore(g *group, s *work.Shape, suited uint64) (float64, uint16) {
	if !s.NeedsGPU() {
		return -float64(g.cpus), 0
	}
	free := float64(g.opens(suited))
	if s.FractionMilli == 0 {
		return -free, 0
	}
	if free > 0 {
		return -free * whole, whole
	}
	from := g.bestPart(s, suited, func(left uint16) float64 { return -float64(left) })
	return -float64(from), from
}

// cut returns the remainders after a fraction was taken from one of them, or from a free GPU if from is 0.
func (p *Pool) cut(left []uint16, from, milli uint16) []uint16 {
	out := append(p.remains[:0], left...)
	if from == 0 {
		out = append(out, whole-milli)
	} else {
		out[slices.Index(out, from)] -= milli
	}
	p.remains = out
	return out
}

// compare orders groups with equal scores: the fewest free GPUs first, then in an order that does not depend on earlier
// placements.
func (g *group) compare(other *group) int {
	return cmp.Or(
		cmp.Compare(g.number, other.number), cmp.Compare(g.kind.number, other.kind.number), cmp.Compare(g.cpus, other.cpus),
		cmp.Compare(g.mem, other.mem), cmp.Compare(g.free, other.free), strings.Compare(g.parts, other.parts),
	)
}
