package place

import (
	"math/bits"

	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/scheduler/hardware"
)

// Reason returns why no job of the fit can be placed now.
func (f *Fit) Reason() reason.Reason {
	why := f.shortage()
	if out := f.pool.excluded(f.shape.Exclude); out != nil {
		if n := out.count(); n > 0 {
			why = reason.New(reason.WithoutExcluded, why, n)
		}
	}
	if f.own == nil {
		return why
	}
	return f.own.explain(why, &f.shape)
}

// shortage returns why no job of this shape can be placed now.
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
	case f.between != nil && s.Between == domains.Same && fitting >= int(s.Nodes):
		return f.scattered(need)
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

// scattered returns why a gang does not fit although enough nodes are free: they are in too many domains.
func (f *Fit) scattered(need reason.Reason) reason.Reason {
	s, b := &f.shape, f.between
	name := domains.NameOf(s.Level)
	if len(b.names) == 0 {
		return reason.New(reason.NeedsLabelledNodes, need, name, s.Level)
	}
	b.count(f)
	if s.Segment > 0 && s.Segment < s.Nodes {
		n := int(s.Segment)
		return reason.New(reason.NeedsSegments, need, n, name, b.segments(n), int(s.Nodes)/n)
	}
	most, where := b.mostInOne()
	return reason.New(reason.NeedsDomain, need, name, most, where)
}

// survey counts the hosts that have enough free GPUs, and those that meet all needs of a task: for a gang, the most that have
// equal GPUs. most is the greatest number of suitable free GPUs on any host. Groups with too few are skipped.
func (f *Fit) survey() (most, enough, fitting int) {
	alike := map[int]int{}
	for _, c := range f.kinds {
		at := f.equal[c.number]
		if !hardware.Gang(&f.shape) {
			at = 0
		}
		from := int(f.shape.GPUs)
		if c.alike && f.bars == nil {
			most = max(most, c.most)
		} else {
			from = 0
		}
		if c.most < from {
			continue
		}
		for _, g := range c.groups {
			if g.count == 0 || int(g.number) < from {
				continue
			}
			n := g.count
			if f.bars != nil {
				n = g.hosts.countNotIn(f.bars)
			}
			if n == 0 {
				continue
			}
			suited := g.opens(c.gpus)
			most = max(most, suited)
			if suited < int(f.shape.GPUs) || f.shape.FractionMilli > 0 && suited == 0 && g.bestPart(&f.shape, c.gpus, nil) == 0 {
				continue
			}
			enough += n
			alike[at] += f.fitting(g, c.gpus, n)
			fitting = max(fitting, alike[at])
		}
	}
	return most, enough, fitting
}

// fitting returns how many of the n hosts of a group that the job may use meet all needs of a task.
func (f *Fit) fitting(g *group, suited uint64, n int) int {
	if g.cpus < f.shape.CPUDemand() || g.mem < f.shape.MemMB {
		return 0
	}
	if f.shape.Topology != work.TopologyNVLink {
		return n
	}
	n = 0
	for i := g.hosts.next(0); i >= 0; i = g.hosts.next(i + 1) {
		if f.barred(i) {
			continue
		}
		if _, ok := f.whole(&f.pool.hosts[i], suited); ok {
			n++
		}
	}
	return n
}

// never returns why no ready node could hold a task of the shape even if it were empty.
func (f *Fit) never(need reason.Reason) reason.Reason {
	s := &f.shape
	labelled, typed, largest := false, false, 0
	for _, k := range f.pool.kinds {
		if !k.selected(s.Selector, f.pool.keys) {
			continue
		}
		labelled = true
		n := bits.OnesCount64(hardware.Suiting(k.gpus, s))
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

// demand describes the needs of a shape.
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
