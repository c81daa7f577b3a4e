package scheduler

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/mindcoordinator/mind/fsm"
)

// reason says, in words for the one who waits, why nothing of this shape fits now.
func (f *fit) reason() string {
	s := &f.shape
	if len(f.pool.hosts) == 0 {
		return "no node is ready"
	}
	need := "needs " + demand(s)
	if len(f.kinds) == 0 {
		return need + "; " + f.never()
	}
	able, free, mostGPUs := 0, 0, 0
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
	roomy := false
	simple := s.Nodes <= 1 && s.FractionMilli == 0 && s.CPUDemand() == 0 && s.MemMB == 0 && s.Topology != fsm.TopologyNVLink
	for _, c := range f.kinds {
		if simple && bits.OnesCount64(c.gpus) == len(c.kind.gpus) {
			roomy, mostGPUs = true, max(mostGPUs, c.most)
			continue
		}
		for n := range c.most + 1 {
			if c.counts[n] == 0 {
				continue
			}
			for i := c.byFree[n].next(0); i >= 0; i = c.byFree[n].next(i + 1) {
				h := &f.pool.hosts[i]
				if h.cpus < s.CPUDemand() || h.mem < s.MemMB {
					continue
				}
				roomy = true
				mostGPUs = max(mostGPUs, bits.OnesCount64(h.free&c.gpus))
				if _, ok := f.whole(h, c.gpus); ok {
					free++
				}
			}
		}
	}
	switch {
	case !roomy:
		return need + "; no node has that many CPUs and that much memory free"
	case s.FractionMilli > 0:
		return need + "; no GPU has that much left"
	case s.Nodes > 1:
		return fmt.Sprintf("%s; %s have that free", need, count(free, "node"))
	case s.GPUs == 0:
		return need + "; no node has that free"
	case mostGPUs >= int(s.GPUs):
		return need + "; no node has so many free that are linked"
	default:
		return fmt.Sprintf("%s; most free on a node is %d", need, mostGPUs)
	}
}

// never explains why no ready node could take the shape even when empty.
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
			if suits(&k.gpus[i], s) {
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

// demand is the shape in words: "4 x H100 on one node".
func demand(s *fsm.Shape) string {
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
	if s.Topology == fsm.TopologyNVLink && s.GPUs > 1 {
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
