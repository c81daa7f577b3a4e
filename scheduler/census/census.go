// Package census counts the nodes of a cluster by the first check that a task of a job fails on them.
//
// It explains to people why a job fits nowhere. Plans do not use it: package place makes the same checks faster.
package census

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/hardware"
)

// View is the part of the state that a census reads.
type View interface {
	Nodes() iter.Seq[*work.Node]
	Use(node string) work.NodeUse
}

// Count is the number of nodes that fail at one check.
type Count struct {
	Check v1.NodeCheck_Value
	Nodes int
	// Examples are the first of these nodes by name.
	Examples []string
}

// checks is the number of checks.
const checks = int(v1.NodeCheck_UNFIT) + 1

// maxExamples is the number of nodes that are named for each check.
const maxExamples = 3

// Of counts all nodes by check, the largest count first.
func Of(v View, j *work.Job) []Count {
	var at [checks]Count
	for n := range v.Nodes() {
		use := v.Use(n.ID)
		c := &at[Check(n, &use, j)]
		if c.Nodes++; len(c.Examples) < maxExamples {
			c.Examples = append(c.Examples, n.ID)
		}
	}
	var out []Count
	for i := range at {
		if at[i].Nodes > 0 {
			at[i].Check = v1.NodeCheck_Value(i)
			out = append(out, at[i])
		}
	}
	slices.SortStableFunc(out, func(a, b Count) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return out
}

// Check returns the first check that a task of a job fails on a node, or FITS.
func Check(n *work.Node, use *work.NodeUse, j *work.Job) v1.NodeCheck_Value {
	if c := state(n); c != v1.NodeCheck_UNSPECIFIED {
		return c
	}
	s := &j.Shape
	if !work.MatchesSelector(n.Labels, s.Selector) {
		return v1.NodeCheck_LABELS
	}
	want := int(s.GPUs)
	if s.FractionMilli > 0 {
		want = 1
	}
	if c := inventory(n, s, want); c != v1.NodeCheck_UNSPECIFIED {
		return c
	}
	if !j.MayRunOn(n) {
		return v1.NodeCheck_MAY_STILL_RUN
	}
	free := work.Eligible(n, use, *s)
	switch {
	case bits.OnesCount64(free) < want:
		return v1.NodeCheck_GPUS_IN_USE
	case s.CPUDemand() > use.FreeCPUs(n):
		return v1.NodeCheck_CPUS_IN_USE
	case s.MemMB > use.FreeMemMB(n):
		return v1.NodeCheck_MEMORY_IN_USE
	}
	if s.Topology == work.TopologyNVLink && s.GPUs > 1 {
		if _, linked := hardware.Choose(n, free, want, true); !linked {
			return v1.NodeCheck_LINKS
		}
	}
	if j.Avoids(n.ID) {
		return v1.NodeCheck_FAILED_THERE
	}
	return v1.NodeCheck_FITS
}

func state(n *work.Node) v1.NodeCheck_Value {
	switch n.State {
	case v1.NodeState_READY:
		return v1.NodeCheck_UNSPECIFIED
	case v1.NodeState_LOST:
		return v1.NodeCheck_LOST
	case v1.NodeState_DRAINING, v1.NodeState_DRAINED:
		return v1.NodeCheck_DRAINED
	case v1.NodeState_UNFIT:
		return v1.NodeCheck_UNFIT
	}
	return v1.NodeCheck_UNREACHABLE
}

// inventory returns the first check that a node would fail even if it were empty.
func inventory(n *work.Node, s *work.Shape, want int) v1.NodeCheck_Value {
	sick := false
	if want > 0 {
		typed, large, healthy := 0, 0, 0
		any := *s
		any.GPUMemMB = 0
		for i := range n.GPUs {
			g := &n.GPUs[i]
			if !work.GPUMatches(g, &any) {
				continue
			}
			typed++
			if s.GPUMemMB > g.MemMB {
				continue
			}
			large++
			if g.Health == v1.GpuHealth_HEALTHY {
				healthy++
			}
		}
		switch {
		case typed == 0 && len(n.GPUs) > 0:
			return v1.NodeCheck_GPU_TYPE
		case large == 0 && typed > 0:
			return v1.NodeCheck_GPU_MEMORY
		case large < want:
			return v1.NodeCheck_GPU_COUNT
		}
		sick = healthy < want
	}
	switch {
	case s.CPUDemand() > n.CPUs:
		return v1.NodeCheck_CPU_COUNT
	case s.MemMB > n.MemMB:
		return v1.NodeCheck_MEMORY_SIZE
	case sick:
		return v1.NodeCheck_GPU_HEALTH
	}
	return v1.NodeCheck_UNSPECIFIED
}
