package scheduler

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/mindcoordinator/mind/fsm/work"
)

// reason says, for users, why nothing fits now.
func (f *fit) reason() string {
	if f.own == nil {
		return f.shortage()
	}
	return f.own.explain(f.shortage(), &f.shape)
}

// shortage says why nothing of this shape fits now.
func (f *fit) shortage() string {
	s := &f.shape
	if len(f.pool.hosts) == 0 {
		return "no node is ready"
	}
	need := "needs " + demand(s)
	if len(f.kinds) == 0 {
		return need + "; " + f.never()
	}
	able := 0
	var maxCPUs, maxMem uint32
	for _, c := range f.kinds {
		able += c.hosts
		maxCPUs, maxMem = max(maxCPUs, c.maxCPUs), max(maxMem, c.maxMem)
	}
	if s.CPUDemand() > maxCPUs {
		return fmt.Sprintf("%s; no such node has more than %d CPUs, so it can never run here", need, maxCPUs)
	}
	if s.MemMB > maxMem {
		return fmt.Sprintf("%s; no such node has more than %d MiB of memory, so it can never run here", need, maxMem)
	}
	if able < int(s.Nodes) {
		return fmt.Sprintf("%s; only %s could take a task of it", need, count(able, "node"))
	}
	most, enough, fitting := f.survey()
	switch {
	case s.FractionMilli > 0 && enough == 0:
		return need + "; no GPU has that much left"
	case s.NeedsGPU() && enough == 0:
		return fmt.Sprintf("%s; most free on a node is %d", need, most)
	case s.Nodes > 1:
		return fmt.Sprintf("%s; %s have that free", need, count(fitting, "node"))
	case s.Topology == work.TopologyNVLink && s.GPUs > 1:
		return need + "; no node has so many free that are linked, with room beside them"
	case s.NeedsGPU():
		return need + "; where GPUs are free, CPUs or memory are not"
	default:
		return need + "; no node has that free"
	}
}

// survey counts the hosts that have enough GPUs free, and those that have everything a task needs; most is the greatest
// number of suitable free GPUs on any host. Hosts with too few are not examined one by one.
func (f *fit) survey() (most, enough, fitting int) {
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

// never explains why no ready node could hold the shape even when empty.
func (f *fit) never() string {
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
		return "no ready node has these labels"
	case !typed && s.GPUType == "" && s.GPUMemMB == 0:
		return "no ready node has GPUs"
	case !typed:
		return "no ready node has such GPUs"
	default:
		return fmt.Sprintf("the largest ready node has %d, so spread it over more nodes", largest)
	}
}

// demand describes the shape in words: "4 x H100 on one node".
func demand(s *work.Shape) string {
	out := ""
	kind := s.GPUType
	if kind == "" {
		kind = "GPU"
	}
	switch {
	case s.FractionMilli > 0:
		out = strconv.FormatFloat(float64(s.FractionMilli)/1000, 'g', -1, 64) + " of one " + kind
	case s.GPUs > 0:
		out = fmt.Sprintf("%d x %s", s.GPUs, kind)
	}
	if s.NeedsGPU() && s.GPUMemMB > 0 {
		out += fmt.Sprintf(" of %d MiB", s.GPUMemMB)
	}
	if s.Topology == work.TopologyNVLink && s.GPUs > 1 {
		out += " linked by NVLink"
	}
	if n := s.CPUDemand(); n > 0 {
		out = and(out, count(int(n), "CPU"))
	}
	if s.MemMB > 0 {
		out = and(out, fmt.Sprintf("%d MiB of memory", s.MemMB))
	}
	if s.Nodes > 1 {
		out += fmt.Sprintf(" on each of %d nodes", s.Nodes)
	} else {
		out += " on one node"
	}
	if s.Selector != "" {
		out += " with " + s.Selector
	}
	return out
}

func and(a, b string) string {
	if a == "" {
		return b
	}
	return a + " and " + b
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
