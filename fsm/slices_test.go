package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

const sliceType = "H100-1g.10gb"

// slicedNode has a GPU, and two slices of another one.
func slicedNode(id string) work.Node {
	n := testNode(id, "boot1", 2)
	whole := n.GPUs[1]
	n.GPUs = n.GPUs[:1]
	for i, instance := range []string{"/1/0", "/2/0"} {
		g := whole
		g.UUID, g.Index, g.Type, g.Model = "MIG-"+id+instance, uint8(2+i), sliceType, whole.Model+" MIG 1g.10gb"
		g.MIG, g.Instance, g.MemMB = "1g.10gb", whole.UUID+instance, 9856
		n.GPUs = append(n.GPUs, g)
	}
	return n
}

func TestSlices_areForJobsThatAskForThem(t *testing.T) {
	for name, c := range map[string]struct {
		shape work.Shape
		gpus  uint64
		fits  bool
	}{
		"any type gets the GPU":       {work.Shape{GPUs: 1}, 0b1, true},
		"any type gets no slice":      {work.Shape{GPUs: 1}, 0b100, false},
		"its GPU's type gets none":    {work.Shape{GPUs: 1, GPUType: "H100"}, 0b100, false},
		"its type":                    {work.Shape{GPUs: 1, GPUType: sliceType}, 0b100, true},
		"its type gets no GPU":        {work.Shape{GPUs: 1, GPUType: sliceType}, 0b1, false},
		"one of two types":            {work.Shape{GPUs: 1, GPUType: "A100|" + sliceType}, 0b1000, true},
		"too much memory":             {work.Shape{GPUs: 1, GPUType: sliceType, GPUMemMB: 20_000}, 0b100, false},
		"two of them, of two types":   {work.Shape{GPUs: 2, GPUType: "A100|" + sliceType}, 0b1100, false},
		"a share of it, of two types": {work.Shape{FractionMilli: 500, GPUType: "A100|" + sliceType}, 0b100, false},
	} {
		w := newWorld(t)
		require.Nil(t, do[nodeverbs.NodeResult](w, nodeverbs.RegisterNode{Node: slicedNode("n1")}).Refusal)
		n := oneGPU()
		n.Shape = c.shape
		id := w.submit(n)
		p := work.Placement{Job: id, Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: c.gpus}}}
		refused := do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{Placements: []work.Placement{p}}).Refused
		require.Equal(t, c.fits, len(refused) == 0, "%s: %v", name, refused)
	}
}

func TestSlices_oneOnANode(t *testing.T) {
	w := newWorld(t)
	do[nodeverbs.NodeResult](w, nodeverbs.RegisterNode{Node: slicedNode("n1")})
	for _, shape := range []work.Shape{{GPUs: 2, GPUType: "h100-1G.10GB"}, {FractionMilli: 500, GPUType: sliceType}} {
		n := oneGPU()
		n.Shape = shape
		r := do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{n}}).Results
		require.Equal(t, reason.SliceAlone, r[0].Refusal.Reason.Code())
	}
}

// A GPU that is divided in another way loses no GPU: the old devices are gone, unless a job has them.
func TestSlices_dividedInAnotherWay(t *testing.T) {
	w := newWorld(t)
	do[nodeverbs.NodeResult](w, nodeverbs.RegisterNode{Node: slicedNode("n1")})
	n := oneGPU()
	n.Shape.GPUType = sliceType
	id := w.submit(n)
	w.do(jobverbs.PlaceJobs{Placements: []work.Placement{{Job: id, Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 0b100}}}}})
	indices := func() (all []uint8, vanished int) {
		node, _ := w.m.View().Node("n1")
		for _, g := range node.GPUs {
			all = append(all, g.Index)
			if g.Health == v1.GpuHealth_VANISHED {
				vanished++
			}
		}
		return all, vanished
	}
	whole := testNode("n1", "boot1", 2)
	w.do(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeHealth, GPUs: whole.GPUs})
	all, vanished := indices()
	require.Equal(t, []uint8{0, 1, 2}, all, "the slice that is not in use is gone")
	require.Equal(t, 1, vanished)

	w.do(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeHealth, GPUs: slicedNode("n1").GPUs})
	all, vanished = indices()
	require.Equal(t, []uint8{0, 2, 3}, all, "the whole GPU is gone")
	require.Zero(t, vanished)
}

func TestSlices_olderReplicasHaveNone(t *testing.T) {
	for at, want := range map[level.Level]int{level.Released: 1, level.Released + 1: 3} {
		for _, c := range []kernel.Leveled{
			nodeverbs.RegisterNode{Node: slicedNode("n1")}, nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeHealth, GPUs: slicedNode("n1").GPUs},
		} {
			written, err := c.AtLevel(at)
			require.NoError(t, err)
			switch written := written.(type) {
			case nodeverbs.RegisterNode:
				require.Len(t, written.Node.GPUs, want)
			case nodeverbs.SetNode:
				require.Len(t, written.GPUs, want)
			}
		}
	}
}
