package place

import (
	"math/bits"

	"github.com/mindcoordinator/mind/fsm/work"
)

// Fit finds places for the jobs of one shape. Capacity only shrinks during a pass, so a host without room now has none
// later in the pass: such hosts are skipped.
type Fit struct {
	pool  *Pool
	shape work.Shape
	kinds []candidate
	spent bitset
	// own is nil for jobs that only their shape limits.
	own   *own
	nodes []int // scratch: hosts of the gang being placed
	masks []uint64
}

// candidate is a kind of host that meets the shape's needs; gpus are the indices of the GPUs of the right type and size.
type candidate struct {
	*kind
	gpus uint64
}

func (p *Pool) For(shape work.Shape) *Fit {
	f := &Fit{pool: p, shape: shape, spent: newBitset(len(p.hosts))}
	for _, k := range p.kinds {
		if !k.selected(shape.Selector, p.keys) {
			continue
		}
		c := candidate{kind: k}
		for i := range k.gpus {
			if work.GPUMatches(&k.gpus[i], &shape) {
				c.gpus |= 1 << k.gpus[i].Index
			}
		}
		if shape.NeedsGPU() && bits.OnesCount64(c.gpus) < max(1, int(shape.GPUs)) {
			continue
		}
		f.kinds = append(f.kinds, c)
	}
	return f
}

func (k *kind) selected(selector string, keys []string) bool {
	if selector == "" {
		return true
	}
	for key, want := range selectorPairs(selector) {
		for i, name := range keys {
			if name == key && (k.labels[i] != want || !k.has[i]) {
				return false
			}
		}
	}
	return true
}

// Place takes capacity for one job, for all tasks or none.
func (f *Fit) Place() ([]work.TaskPlacement, bool) {
	want := max(1, int(f.shape.Nodes))
	f.nodes, f.masks = f.nodes[:0], f.masks[:0]
	switch {
	case f.shape.FractionMilli > 0:
		f.share()
	case want == 1 || !f.shape.NeedsGPU():
		f.gather(-1, want)
	default:
		f.gang(want)
	}
	if len(f.nodes) < want {
		return nil, false
	}
	tasks := make([]work.TaskPlacement, want)
	for i, h := range f.nodes {
		f.pool.take(h, &f.shape, f.masks[i])
		tasks[i] = work.TaskPlacement{Node: f.pool.hosts[h].node.ID, GPUs: f.masks[i]}
	}
	return tasks, true
}

// gang finds hosts with the same GPUs: the slowest rank determines the speed of all.
func (f *Fit) gang(want int) {
	tried := uint64(0) // the first 64 specs; further ones only repeat work
	for _, c := range f.kinds {
		if c.spec < 64 && tried&(1<<c.spec) != 0 {
			continue
		}
		tried |= 1 << (c.spec & 63)
		f.nodes, f.masks = f.nodes[:0], f.masks[:0]
		if f.gather(c.spec, want); len(f.nodes) == want {
			return
		}
	}
}

// gather collects want hosts, those with the fewest free GPUs that still fit first, so that whole nodes stay free for jobs
// that need them. spec -1: of any kind.
func (f *Fit) gather(spec, want int) {
	most := 0
	for _, c := range f.kinds {
		most = max(most, c.most)
	}
	for n := int(f.shape.GPUs); n <= most; n++ {
		for _, c := range f.kinds {
			if (spec >= 0 && c.spec != spec) || c.counts[n] == 0 {
				continue
			}
			for h := c.byFree[n].nextNotIn(f.spent, 0); h >= 0; h = c.byFree[n].nextNotIn(f.spent, h+1) {
				gpus, ok := f.whole(&f.pool.hosts[h], c.gpus)
				if !ok {
					f.spent.add(h)
					continue
				}
				f.nodes, f.masks = append(f.nodes, h), append(f.masks, gpus)
				if len(f.nodes) == want {
					return
				}
			}
		}
	}
}

// whole chooses whole GPUs on a host, or none for a job without GPUs.
func (f *Fit) whole(h *host, suited uint64) (uint64, bool) {
	if h.cpus < f.shape.CPUDemand() || h.mem < f.shape.MemMB {
		return 0, false
	}
	if f.shape.GPUs == 0 {
		return 0, true
	}
	return h.wiring().pick(h.free&suited, int(f.shape.GPUs), f.shape.Topology == work.TopologyNVLink)
}

func (f *Fit) barred(i int) bool { return f.own != nil && f.own.barred.has(i) }

// share chooses a part of one GPU: the fullest shared GPU with enough left, or a free one on the host with the fewest free.
func (f *Fit) share() {
	need := f.shape.FractionMilli
	host, gpu, least := -1, 0, uint16(1001)
	for _, c := range f.kinds {
		if c.partial == nil {
			continue
		}
		for i := c.partial.next(0); i >= 0; i = c.partial.next(i + 1) {
			h := &f.pool.hosts[i]
			if h.cpus < f.shape.CPUDemand() || h.mem < f.shape.MemMB || f.barred(i) {
				continue
			}
			for rest := h.shared & c.gpus; rest != 0; rest &= rest - 1 {
				g := bits.TrailingZeros64(rest)
				if left := h.left[g]; left >= need && left < least {
					host, gpu, least = i, g, left
				}
			}
			if least == need {
				break
			}
		}
	}
	if host >= 0 {
		f.nodes, f.masks = append(f.nodes, host), append(f.masks, 1<<gpu)
		return
	}
	for n := 1; n <= work.MaxGPUs; n++ {
		for _, c := range f.kinds {
			if n > c.most || c.counts[n] == 0 {
				continue
			}
			for i := c.byFree[n].nextNotIn(f.spent, 0); i >= 0; i = c.byFree[n].nextNotIn(f.spent, i+1) {
				h := &f.pool.hosts[i]
				if h.cpus < f.shape.CPUDemand() || h.mem < f.shape.MemMB || h.free&c.gpus == 0 {
					f.spent.add(i)
					continue
				}
				gpus, _ := h.wiring().pick(h.free&c.gpus, 1, false)
				f.nodes, f.masks = append(f.nodes, i), append(f.masks, gpus)
				return
			}
		}
	}
}
