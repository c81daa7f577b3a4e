package census_test

import (
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/census"
)

func node() *work.Node {
	n := &work.Node{ID: "n", State: v1.NodeState_READY, CPUs: 16, MemMB: 64_000, Labels: map[string]string{"zone": "a"}, RosterSince: 9}
	for i := range 4 {
		n.GPUs = append(n.GPUs, work.GPU{Index: uint8(i), Type: "H100", Model: "NVIDIA H100", MemMB: 80_000, Health: v1.GpuHealth_HEALTHY})
	}
	// 0 and 1 are linked, 2 and 3 are not.
	n.GPUs[0].NVLink, n.GPUs[1].NVLink = 2, 1
	return n
}

func TestCheck(t *testing.T) {
	for _, x := range []struct {
		want  v1.NodeCheck_Value
		shape work.Shape
		but   func(n *work.Node, u *work.NodeUse, j *work.Job)
	}{
		{want: v1.NodeCheck_FITS, shape: work.Shape{GPUs: 4, GPUType: "H100", CPUs: 16, MemMB: 64_000, Selector: "zone=a"}},
		{want: v1.NodeCheck_FITS, shape: work.Shape{}},
		{want: v1.NodeCheck_LOST, but: func(n *work.Node, _ *work.NodeUse, _ *work.Job) { n.State = v1.NodeState_LOST }},
		{want: v1.NodeCheck_UNREACHABLE, but: func(n *work.Node, _ *work.NodeUse, _ *work.Job) { n.State = v1.NodeState_UNREACHABLE }},
		{want: v1.NodeCheck_UNFIT, but: func(n *work.Node, _ *work.NodeUse, _ *work.Job) { n.State = v1.NodeState_UNFIT }},
		{want: v1.NodeCheck_DRAINED, but: func(n *work.Node, _ *work.NodeUse, _ *work.Job) { n.State = v1.NodeState_DRAINING }},
		{want: v1.NodeCheck_LABELS, shape: work.Shape{Selector: "zone=b"}},
		{want: v1.NodeCheck_GPU_TYPE, shape: work.Shape{GPUs: 1, GPUType: "A100"}},
		{want: v1.NodeCheck_GPU_MEMORY, shape: work.Shape{GPUs: 1, GPUMemMB: 80_001}},
		{want: v1.NodeCheck_GPU_COUNT, shape: work.Shape{GPUs: 5}},
		{want: v1.NodeCheck_GPU_COUNT, shape: work.Shape{FractionMilli: 500}, but: func(n *work.Node, _ *work.NodeUse, _ *work.Job) { n.GPUs = nil }},
		{want: v1.NodeCheck_CPU_COUNT, shape: work.Shape{CPUs: 17}},
		{want: v1.NodeCheck_MEMORY_SIZE, shape: work.Shape{MemMB: 64_001}},
		{want: v1.NodeCheck_GPU_HEALTH, shape: work.Shape{GPUs: 4}, but: func(n *work.Node, _ *work.NodeUse, _ *work.Job) { n.GPUs[2].Health = v1.GpuHealth_QUARANTINED }},
		{want: v1.NodeCheck_MAY_STILL_RUN, but: func(_ *work.Node, _ *work.NodeUse, j *work.Job) {
			j.Awaits = []work.AwaitedTask{{Node: "m", Roster: 3}}
		}},
		{want: v1.NodeCheck_GPUS_IN_USE, shape: work.Shape{GPUs: 3}, but: func(_ *work.Node, u *work.NodeUse, _ *work.Job) { u.Exclusive = 0b11 }},
		{want: v1.NodeCheck_GPUS_IN_USE, shape: work.Shape{GPUs: 3}, but: func(_ *work.Node, u *work.NodeUse, _ *work.Job) { u.Claimed.GPUs = 0b11 }},
		{want: v1.NodeCheck_CPUS_IN_USE, shape: work.Shape{CPUs: 8}, but: func(_ *work.Node, u *work.NodeUse, _ *work.Job) { u.CPUs = 9 }},
		{want: v1.NodeCheck_MEMORY_IN_USE, shape: work.Shape{MemMB: 8}, but: func(_ *work.Node, u *work.NodeUse, _ *work.Job) { u.MemMB = 63_999 }},
		{want: v1.NodeCheck_LINKS, shape: work.Shape{GPUs: 3, Topology: work.TopologyNVLink}},
		{want: v1.NodeCheck_FITS, shape: work.Shape{GPUs: 2, Topology: work.TopologyNVLink}},
		{want: v1.NodeCheck_FAILED_THERE, but: func(_ *work.Node, _ *work.NodeUse, j *work.Job) {
			j.Past = []work.PastAttempt{{Attempt: 1, FailedNode: "n"}}
		}},
	} {
		n, u, j := node(), &work.NodeUse{}, &work.Job{Shape: x.shape}
		if x.but != nil {
			x.but(n, u, j)
		}
		require.Equal(t, x.want, census.Check(n, u, j), "%+v", x.shape)
	}
}

type nodes []*work.Node

func (v nodes) Nodes() iter.Seq[*work.Node]  { return slices.Values(v) }
func (v nodes) Use(node string) work.NodeUse { return work.NodeUse{} }

func TestOf(t *testing.T) {
	var v nodes
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		n := node()
		if n.ID = id; id == "b" {
			n.State = v1.NodeState_LOST
		}
		v = append(v, n)
	}
	require.Equal(t, []census.Count{
		{Check: v1.NodeCheck_GPU_COUNT, Nodes: 4, Examples: []string{"a", "c", "d"}}, {Check: v1.NodeCheck_LOST, Nodes: 1, Examples: []string{"b"}},
	}, census.Of(v, &work.Job{Shape: work.Shape{GPUs: 8}}))
}
