package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/scheduler"
)

func TestPlan_priorityThenAge(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 2, 2), nil)
	low := s.submit(fsm.Shape{GPUs: 1}, 1)
	old := s.submit(fsm.Shape{GPUs: 1}, 5)
	young := s.submit(fsm.Shape{GPUs: 1, CPUs: 2}, 5) // another class
	high := s.submit(fsm.Shape{GPUs: 1, CPUs: 3}, 9)
	s.run()
	require.Equal(t, v1.JobState_ALLOCATED, s.get(high).State)
	require.Equal(t, v1.JobState_ALLOCATED, s.get(old).State)
	require.Equal(t, v1.JobState_QUEUED, s.get(young).State)
	require.Equal(t, v1.JobState_QUEUED, s.get(low).State)
	s.end(high)
	s.run()
	require.Equal(t, v1.JobState_ALLOCATED, s.get(young).State, "same priority, older than nothing else")
	require.Equal(t, v1.JobState_QUEUED, s.get(low).State)
}

func TestPlan_bestFitKeepsWholeNodesFree(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	s.node("n2", gpus("n2", "H100", 8, 8), nil)
	first := s.submit(fsm.Shape{GPUs: 5}, 5)
	s.run()
	two := s.submit(fsm.Shape{GPUs: 2}, 5)
	one := s.submit(fsm.Shape{GPUs: 1}, 5)
	whole := s.submit(fsm.Shape{GPUs: 8}, 5)
	s.run()
	require.Equal(t, s.get(first).Tasks[0].Node, s.get(two).Tasks[0].Node)
	require.Equal(t, s.get(first).Tasks[0].Node, s.get(one).Tasks[0].Node)
	require.NotEqual(t, s.get(first).Tasks[0].Node, s.get(whole).Tasks[0].Node)
}

func TestPlan_gangAllOrNone(t *testing.T) {
	s := newState(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		s.node(n, gpus(n, "H100", 8, 8), nil)
	}
	blocker := s.submit(fsm.Shape{GPUs: 1}, 5)
	s.run()
	gang := s.submit(fsm.Shape{Nodes: 3, GPUs: 8}, 9)
	pair := s.submit(fsm.Shape{Nodes: 2, GPUs: 8}, 5)
	s.run()
	require.Equal(t, v1.JobState_QUEUED, s.get(gang).State)
	require.Equal(t, "needs 8 x GPU on each of 3 nodes; 2 nodes have that free", s.reason(gang))
	require.Equal(t, "n2:0,1,2,3,4,5,6,7 n3:0,1,2,3,4,5,6,7", s.placed(pair), "what fits is not held up")
	s.end(pair)
	s.end(blocker)
	s.run()
	require.Len(t, s.get(gang).Tasks, 3)
}

func TestPlan_gangOfOneKindOfGPU(t *testing.T) {
	s := newState(t)
	s.node("a", gpus("a", "A100", 8, 8), nil)
	s.node("b", gpus("b", "H100", 8, 8), nil)
	gang := s.submit(fsm.Shape{Nodes: 2, GPUs: 8}, 5)
	s.run()
	require.Equal(t, v1.JobState_QUEUED, s.get(gang).State, "the two nodes differ")
	s.node("c", gpus("c", "H100", 8, 8), nil)
	s.run()
	require.Equal(t, "b:0,1,2,3,4,5,6,7 c:0,1,2,3,4,5,6,7", s.placed(gang))
}

func TestPlan_whatIsAskedIsHonoured(t *testing.T) {
	for _, tt := range []struct {
		name   string
		shape  fsm.Shape
		where  string
		reason string
	}{
		{"type", fsm.Shape{GPUs: 1, GPUType: "A100"}, "a100:0", ""},
		{"model by name, any case", fsm.Shape{GPUs: 1, GPUType: "nvidia a100"}, "a100:0", ""},
		{"memory of each GPU", fsm.Shape{GPUs: 1, GPUMemMB: 100_000}, "", "needs 1 x GPU of 100000 MiB on one node; no ready node has such GPUs"},
		{"label", fsm.Shape{GPUs: 1, Selector: "zone=b"}, "labelled:0", ""},
		{"two labels", fsm.Shape{GPUs: 1, Selector: "disk=nvme,zone=b"}, "labelled:0", ""},
		{"label that is nowhere", fsm.Shape{GPUs: 1, Selector: "zone=c"}, "", "needs 1 x GPU on one node with zone=c; no ready node has these labels"},
		{"empty label is not an absent one", fsm.Shape{GPUs: 1, Selector: "zone="}, "", "needs 1 x GPU on one node with zone=; no ready node has these labels"},
		{"more than a node has", fsm.Shape{GPUs: 16}, "", "needs 16 x GPU on one node; the largest ready node has 8, so spread it over more nodes"},
		{"CPUs that no node has", fsm.Shape{CPUs: 65}, "", "needs 65 CPUs on one node; no such node has more than 64 CPUs, so it can never run here"},
		{"memory that no node has", fsm.Shape{MemMB: 1 << 20}, "", "needs 1 CPU and 1048576 MiB of memory on one node; no such node has more than 524288 MiB of memory, so it can never run here"},
		{"no GPU goes where the fewest are free", fsm.Shape{CPUs: 4}, "labelled:", ""},
		{"NVLink within an island", fsm.Shape{GPUs: 4, Topology: fsm.TopologyNVLink, GPUType: "H100", Selector: "wire=pairs4"}, "islands:0,1,2,3", ""},
		{"NVLink across islands", fsm.Shape{GPUs: 5, Topology: fsm.TopologyNVLink, Selector: "wire=pairs4"}, "", "needs 5 x GPU linked by NVLink on one node with wire=pairs4; no node has so many free that are linked, with room beside them"},
		{"across islands when any will do", fsm.Shape{GPUs: 5, Selector: "wire=pairs4"}, "islands:0,1,2,3,4", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newState(t)
			s.node("a100", gpus("a100", "A100", 8, 8), nil)
			s.node("islands", gpus("islands", "H100", 8, 4), map[string]string{"wire": "pairs4"})
			s.node("labelled", gpus("labelled", "L4", 4, 1), map[string]string{"zone": "b", "disk": "nvme"})
			r := s.apply(fsm.SubmitJobs{Jobs: []fsm.NewJob{s.job(tt.shape, 5)}})[0].(fsm.SubmitJobsResult).Results[0]
			require.Nil(t, r.Refusal)
			s.run()
			require.Equal(t, tt.where, s.placed(r.Job))
			require.Equal(t, tt.reason, s.reason(r.Job))
		})
	}
}

func TestPlan_fractionsShareTheFullestGPU(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 2, 2), nil)
	s.node("n2", gpus("n2", "H100", 2, 2), nil)
	a := s.submit(fsm.Shape{FractionMilli: 600}, 5)
	b := s.submit(fsm.Shape{FractionMilli: 500}, 5)
	c := s.submit(fsm.Shape{FractionMilli: 400}, 5)
	d := s.submit(fsm.Shape{FractionMilli: 500}, 5)
	s.run()
	require.Equal(t, s.placed(a), s.placed(c))
	require.Equal(t, s.placed(b), s.placed(d))
	require.Equal(t, s.get(a).Tasks[0].Node, s.get(b).Tasks[0].Node, "the other node stays whole")
	e := s.submit(fsm.Shape{Nodes: 1, GPUs: 2}, 5)
	s.run()
	require.Equal(t, "n2:0,1", s.placed(e))
	f := s.submit(fsm.Shape{FractionMilli: 100}, 5)
	s.run()
	require.Equal(t, "needs 0.1 of one GPU on one node; no GPU has that much left", s.reason(f))
}

func TestPlan_sickAndSilentNodesGetNothing(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	s.node("n2", gpus("n2", "H100", 8, 8), nil)
	sick := gpus("n1", "H100", 8, 8)
	for i := range 4 {
		sick[i].Health = v1.GpuHealth_QUARANTINED
	}
	s.apply(fsm.SetNode{ID: "n1", Action: fsm.NodeHealth, GPUs: sick})
	s.apply(fsm.SetNode{ID: "n2", Action: fsm.NodeUnreachable})
	eight := s.submit(fsm.Shape{GPUs: 8}, 5)
	four := s.submit(fsm.Shape{GPUs: 4}, 5)
	s.run()
	require.Equal(t, "needs 8 x GPU on one node; most free on a node is 4", s.reason(eight))
	require.Equal(t, "n1:4,5,6,7", s.placed(four))
	s.apply(fsm.SetNode{ID: "n2", Action: fsm.NodeReachable})
	s.run()
	require.Equal(t, "n2:0,1,2,3,4,5,6,7", s.placed(eight))
}

func TestPlan_noNodes(t *testing.T) {
	s := newState(t)
	j := s.submit(fsm.Shape{GPUs: 1}, 5)
	s.run()
	require.Equal(t, "no node is ready", s.reason(j))
}

func TestPlan_nothingNewSaysNothing(t *testing.T) {
	s := newState(t)
	require.Empty(t, s.run().Commands)
	s.node("n1", gpus("n1", "H100", 1, 1), nil)
	s.submit(fsm.Shape{GPUs: 1}, 5)
	s.submit(fsm.Shape{GPUs: 1}, 5)
	require.Equal(t, 1, s.run().Placed)
	second := s.run()
	require.Empty(t, second.Commands, "the reason was given with the placement")
	require.Len(t, second.Blocked, 1)
}

func TestPlan_boundsOfAPass(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 16, 16), nil)
	for range 12 {
		s.submit(fsm.Shape{GPUs: 1}, 5)
	}
	plan := scheduler.Plan(s.machine.View(), s.now, scheduler.Options{PerCommand: 4, PerPass: 10})
	require.True(t, plan.More)
	require.Equal(t, 10, plan.Placed)
	require.Len(t, plan.Commands, 3)
	require.Len(t, plan.Commands[0].Placements, 4)
	require.Len(t, plan.Commands[2].Placements, 2)
}
