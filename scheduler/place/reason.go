package place

import (
	"math/bits"

	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Reason says why nothing fits now.
func (f *Fit) Reason() reason.Reason {
	if f.own == nil {
		return f.shortage()
	}
	return f.own.explain(f.shortage(), &f.shape)
}

// shortage says why nothing of this shape fits now.
func (f *Fit) shortage() reason.Reason {
	s := &f.shape
	if len(f.pool.hosts) == 0 {
		return reason.New(reason.NoNodeReady)
	}
	need := demand(s)
	if len(f.kinds) == 0 {
		return f.never(need)
	}
	able := 0
	var maxCPUs, maxMem uint32
	for _, c := range f.kinds {
		able += c.hosts
		maxCPUs, maxMem = max(maxCPUs, c.maxCPUs), max(maxMem, c.maxMem)
	}
	switch {
	case s.CPUDemand() > maxCPUs:
		return reason.New(reason.NeedsCPUs, need, maxCPUs)
	case s.MemMB > maxMem:
		return reason.New(reason.NeedsMemory, need, maxMem)
	case able < int(s.Nodes):
		return reason.New(reason.NeedsAbleNodes, need, able)
	}
	most, enough, fitting := f.survey()
	switch {
	case s.FractionMilli > 0 && enough == 0:
		return reason.New(reason.NeedsFraction, need)
	case s.NeedsGPU() && enough == 0:
		return reason.New(reason.NeedsFreeGPUs, need, most)
	case s.Nodes > 1:
		return reason.New(reason.NeedsFreeNodes, need, fitting)
	case s.Topology == work.TopologyNVLink && s.GPUs > 1:
		return reason.New(reason.NeedsLinkedGPUs, need)
	case s.NeedsGPU():
		return reason.New(reason.NeedsRoomBesideGPUs, need)
	default:
		return reason.New(reason.NeedsFreeNode, need)
	}
}

// survey counts the hosts that have enough GPUs free, and those that have everything a task needs; most is the greatest
// number of suitable free GPUs on any host. Hosts with too few are not examined one by one.
func (f *Fit) survey() (most, enough, fitting int) {
	for _, c := range f.kinds {
		all := bits.OnesCount64(c.gpus) == len(c.kind.gpus) && f.own == nil
		if all {
			most = max(most, c.most)
		}
		from := max(int(f.shape.GPUs), min(1, int(f.shape.FractionMilli)))
		if !all {
			from = 0
		}
		for n := from; n <= c.most; n++ {
			if c.counts[n] == 0 {
				continue
			}
			for i := c.byFree[n].next(0); i >= 0; i = c.byFree[n].next(i + 1) {
				if f.barred(i) {
					continue
				}
				h := &f.pool.hosts[i]
				suited := bits.OnesCount64(h.free & c.gpus)
				most = max(most, suited)
				if suited < int(f.shape.GPUs) {
					continue
				}
				enough++
				if _, ok := f.whole(h, c.gpus); ok {
					fitting++
				}
			}
		}
	}
	return most, enough, fitting
}

// never explains why no ready node could take the shape even when empty.
func (f *Fit) never(need reason.Reason) reason.Reason {
	s := &f.shape
	labelled, typed, largest := false, false, 0
	for _, k := range f.pool.kinds {
		if !k.selected(s.Selector, f.pool.keys) {
			continue
		}
		labelled = true
		n := 0
		for i := range k.gpus {
			if work.GPUMatches(&k.gpus[i], s) {
				n++
			}
		}
		typed = typed || n > 0
		largest = max(largest, n)
	}
	switch {
	case !labelled:
		return reason.New(reason.NeedsLabels, need)
	case !typed && s.GPUType == "" && s.GPUMemMB == 0:
		return reason.New(reason.NeedsGPUs, need)
	case !typed:
		return reason.New(reason.NeedsSuchGPUs, need)
	default:
		return reason.New(reason.NeedsMoreNodes, need, largest)
	}
}

// demand is what a shape asks for.
func demand(s *work.Shape) reason.Reason {
	var memory, linked uint32
	if s.NeedsGPU() {
		memory = s.GPUMemMB
	}
	if s.Topology == work.TopologyNVLink && s.GPUs > 1 {
		linked = 1
	}
	return reason.New(reason.Demand, s.GPUs, s.GPUType, s.FractionMilli, memory, linked, s.CPUDemand(), s.MemMB, s.Nodes, s.Selector)
}
