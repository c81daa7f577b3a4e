package hardware

import (
	"math/bits"

	"github.com/mindcoordinator/mind/fsm/work"
)

// Wiring has the connections between the GPUs of one node: for each index, its peers over NVLink and the GPUs of the
// same NUMA node.
type Wiring struct {
	nvlink [64]uint64
	numa   [64]uint64
	// uniform: all GPUs are connected in the same way, so any choice is equally good.
	uniform bool
}

// Wire returns the connections between some GPUs.
func Wire(gpus []work.GPU) *Wiring {
	w := &Wiring{uniform: true}
	var all uint64
	for i := range gpus {
		all |= 1 << gpus[i].Index
	}
	for i := range gpus {
		g := &gpus[i]
		w.nvlink[g.Index] = g.NVLink
		for j := range gpus {
			if gpus[j].NUMA == g.NUMA {
				w.numa[g.Index] |= 1 << gpus[j].Index
			}
		}
		others := all &^ (1 << g.Index)
		linked := g.NVLink & others
		if w.numa[g.Index] != all || (linked != others && linked != 0) {
			w.uniform = false
		}
	}
	return w
}

// Pick chooses want GPUs out of free: those with the best connection (NVLink first, then the same NUMA node), and among
// equals those that leave the largest islands whole. With nvlink set, all chosen GPUs must be connected to each other over
// NVLink; ok is false if no such choice is found.
func (w *Wiring) Pick(free uint64, want int, nvlink bool) (chosen uint64, ok bool) {
	n := bits.OnesCount64(free)
	if n < want {
		return 0, false
	}
	if want == 0 {
		return 0, true
	}
	if w.uniform && (!nvlink || want == 1) {
		return lowest(free, want), true
	}
	if n == want && !nvlink {
		return free, true
	}
	best := -1
	for seeds := free; seeds != 0; seeds &= seeds - 1 {
		set, score, grown := w.grow(bits.TrailingZeros64(seeds), free, want, nvlink)
		if grown && score > best {
			best, chosen = score, set
		}
	}
	return chosen, best >= 0
}

// grow collects want GPUs around seed, nearest first, and scores the result.
func (w *Wiring) grow(seed int, free uint64, want int, nvlink bool) (set uint64, score int, ok bool) {
	set = 1 << seed
	for bits.OnesCount64(set) < want {
		next, nearest := -1, -1
		for rest := free &^ set; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			links := bits.OnesCount64(w.nvlink[i] & set)
			if nvlink && links < bits.OnesCount64(set) {
				continue
			}
			if near := links<<16 + bits.OnesCount64(w.numa[i]&set)<<8 + 64 - w.neighbours(i, free); near > nearest {
				next, nearest = i, near
			}
		}
		if next < 0 {
			return 0, 0, false
		}
		set |= 1 << next
	}
	links, numa, spoiled := 0, 0, 0
	for rest := set; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		links += bits.OnesCount64(w.nvlink[i] & set)
		numa += bits.OnesCount64(w.numa[i] & set)
		spoiled += w.neighbours(i, free&^set)
	}
	return set, links<<32 + numa<<16 + (64*64 - spoiled), true
}

// neighbours counts the free GPUs in the same island as i, which taking i would break up.
func (w *Wiring) neighbours(i int, free uint64) int {
	return bits.OnesCount64((w.nvlink[i] | w.numa[i]) & free &^ (1 << i))
}

// lowest returns the want lowest bits of mask.
func lowest(mask uint64, want int) uint64 {
	rest := mask
	for range want {
		rest &= rest - 1
	}
	return mask &^ rest
}
