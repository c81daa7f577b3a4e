package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/scheduler"
)

func TestPlan_priorityThenAge(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 2, 2), nil)
	low := s.submit(work.Shape{GPUs: 1}, 1)
	old := s.submit(work.Shape{GPUs: 1}, 5)
	young := s.submit(work.Shape{GPUs: 1, CPUs: 2}, 5) // another class
	high := s.submit(work.Shape{GPUs: 1, CPUs: 3}, 9)
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
	first := s.submit(work.Shape{GPUs: 5}, 5)
	s.run()
	two := s.submit(work.Shape{GPUs: 2}, 5)
	one := s.submit(work.Shape{GPUs: 1}, 5)
	whole := s.submit(work.Shape{GPUs: 8}, 5)
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
	blocker := s.submit(work.Shape{GPUs: 1}, 5)
	s.run()
	gang := s.submit(work.Shape{Nodes: 3, GPUs: 8}, 9)
	pair := s.submit(work.Shape{Nodes: 2, GPUs: 8}, 5)
	s.run()
	require.Equal(t, v1.JobState_QUEUED, s.get(gang).State)
	require.Equal(t, "needs 8 GPUs on each of 3 nodes; most free on a node is 7", s.reason(gang))
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
	gang := s.submit(work.Shape{Nodes: 2, GPUs: 8}, 5)
	s.run()
	require.Equal(t, v1.JobState_QUEUED, s.get(gang).State, "the two nodes differ")
	s.node("c", gpus("c", "H100", 8, 8), nil)
	s.run()
	require.Equal(t, "b:0,1,2,3,4,5,6,7 c:0,1,2,3,4,5,6,7", s.placed(gang))
}

// The tasks of a gang have equal GPUs. How many others their nodes have, and of which types, makes no difference.
func TestPlan_gangOnNodesThatDifferInOtherGPUs(t *testing.T) {
	mixed := append(gpus("c", "A100", 1, 1), gpus("c2", "H100", 2, 2)...)
	for i := range mixed {
		mixed[i].Index, mixed[i].NVLink = uint8(i), 0
	}
	s := newState(t)
	s.node("a", gpus("a", "H100", 2, 2), nil)
	s.node("b", gpus("b", "H100", 4, 4), nil)
	s.node("c", mixed, nil)
	typed := s.submit(work.Shape{Nodes: 3, GPUs: 2, GPUType: "H100"}, 5)
	s.run()
	require.Equal(t, "a:0,1 c:1,2 b:0,1", s.placed(typed))
	s.end(typed)
	either := s.submit(work.Shape{Nodes: 3, GPUs: 2}, 5)
	s.run()
	require.Equal(t, "needs 2 GPUs on each of 3 nodes; 2 nodes have that free", s.reason(either), "the third has other GPUs that it may use")
	urgent := s.submit(work.Shape{Nodes: 2, GPUs: 2}, 9)
	s.run()
	require.Equal(t, "a:0,1 b:0,1", s.placed(urgent))
}

// A job that names several types of GPU gets one of them, and a gang gets the same on all nodes.
func TestPlan_oneOfSeveralTypesOfGPU(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "A100", 2, 2), nil)
	s.node("n2", gpus("n2", "H100", 2, 2), nil)
	s.node("n3", gpus("n3", "V100", 2, 2), nil)
	s.node("n4", gpus("n4", "H100", 2, 2), nil)
	gang := s.submit(work.Shape{Nodes: 2, GPUs: 2, GPUType: "v100|h100|h100"}, 5)
	one := s.submit(work.Shape{GPUs: 2, GPUType: "B200|A100"}, 5)
	none := s.submit(work.Shape{GPUs: 2, GPUType: "A100|H100"}, 5)
	require.Equal(t, "H100|V100", s.get(gang).Shape.GPUType, "as the nodes spell them, sorted, each once")
	s.run()
	require.Equal(t, "n2:0,1 n4:0,1", s.placed(gang))
	require.Equal(t, "n1:0,1", s.placed(one))
	require.Equal(t, "needs 2 x A100|H100 on one node; most free on a node is 0", s.reason(none))
	r := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{s.job(work.Shape{GPUs: 1, GPUType: "B200|B300"}, 5)}})[0].(jobverbs.SubmitJobsResult)
	require.NotNil(t, r.Results[0].Refusal)
}

func TestPlan_whatIsAskedIsHonoured(t *testing.T) {
	for _, tt := range []struct {
		name   string
		shape  work.Shape
		where  string
		reason string
	}{
		{"type", work.Shape{GPUs: 1, GPUType: "A100"}, "a100:0", ""},
		{"model by name, any case", work.Shape{GPUs: 1, GPUType: "nvidia a100"}, "a100:0", ""},
		{"memory of each GPU", work.Shape{GPUs: 1, GPUMemMB: 100_000}, "", "needs 1 GPU of 100000 MiB on one node; no ready node has such GPUs"},
		{"label", work.Shape{GPUs: 1, Selector: "zone=b"}, "labelled:0", ""},
		{"two labels", work.Shape{GPUs: 1, Selector: "disk=nvme,zone=b"}, "labelled:0", ""},
		{"label that is nowhere", work.Shape{GPUs: 1, Selector: "zone=c"}, "", "needs 1 GPU on one node with zone=c; no ready node has these labels"},
		{"empty label is not an absent one", work.Shape{GPUs: 1, Selector: "zone="}, "", "needs 1 GPU on one node with zone=; no ready node has these labels"},
		{"more than a node has", work.Shape{GPUs: 16}, "", "needs 16 GPUs on one node; the largest ready node has 8, so spread it over more nodes"},
		{"CPUs that no node has", work.Shape{CPUs: 65}, "", "needs 65 CPUs on one node; no such node has more than 64 CPUs, so it can never run here"},
		{"memory that no node has", work.Shape{MemMB: 1 << 20}, "", "needs 1 CPU and 1048576 MiB of memory on one node; no such node has more than 524288 MiB of memory, so it can never run here"},
		{"no GPU goes where the fewest are free", work.Shape{CPUs: 4}, "labelled:", ""},
		{"NVLink within an island", work.Shape{GPUs: 4, Topology: work.TopologyNVLink, GPUType: "H100", Selector: "wire=pairs4"}, "islands:0,1,2,3", ""},
		{"NVLink across islands", work.Shape{GPUs: 5, Topology: work.TopologyNVLink, Selector: "wire=pairs4"}, "", "needs 5 GPUs linked by NVLink on one node with wire=pairs4; no node has enough linked GPUs free with the CPUs and memory that go with them"},
		{"across islands when any will do", work.Shape{GPUs: 5, Selector: "wire=pairs4"}, "islands:0,1,2,3,4", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newState(t)
			s.node("a100", gpus("a100", "A100", 8, 8), nil)
			s.node("islands", gpus("islands", "H100", 8, 4), map[string]string{"wire": "pairs4"})
			s.node("labelled", gpus("labelled", "L4", 4, 1), map[string]string{"zone": "b", "disk": "nvme"})
			r := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{s.job(tt.shape, 5)}})[0].(jobverbs.SubmitJobsResult).Results[0]
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
	a := s.submit(work.Shape{FractionMilli: 600}, 5)
	b := s.submit(work.Shape{FractionMilli: 500}, 5)
	c := s.submit(work.Shape{FractionMilli: 400}, 5)
	d := s.submit(work.Shape{FractionMilli: 500}, 5)
	s.run()
	require.Equal(t, s.placed(a), s.placed(c))
	require.Equal(t, s.placed(b), s.placed(d))
	require.Equal(t, s.get(a).Tasks[0].Node, s.get(b).Tasks[0].Node, "the other node stays whole")
	e := s.submit(work.Shape{Nodes: 1, GPUs: 2}, 5)
	s.run()
	require.Equal(t, "n2:0,1", s.placed(e))
	f := s.submit(work.Shape{FractionMilli: 100}, 5)
	s.run()
	require.Equal(t, "needs 0.1 of one GPU on one node; no GPU has that much left", s.reason(f))
}

// Where all GPUs are in use, that is the reason of a fraction, also of one that may not use all nodes.
func TestPlan_fractionsSayWhatIsMissing(t *testing.T) {
	s := newState(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		s.node(n, gpus(n, "H100", 2, 2), nil)
	}
	s.submit(work.Shape{Nodes: 3, GPUs: 2, Exclude: "n9"}, 5)
	s.run()
	a := s.submit(work.Shape{FractionMilli: 500, Exclude: "n1"}, 5)
	s.run()
	require.Contains(t, s.reason(a), "no GPU has that much left")
}

func TestPlan_sickAndSilentNodesGetNothing(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	s.node("n2", gpus("n2", "H100", 8, 8), nil)
	sick := gpus("n1", "H100", 8, 8)
	for i := range 4 {
		sick[i].Health = v1.GpuHealth_QUARANTINED
	}
	s.apply(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeHealth, GPUs: sick})
	s.apply(nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeUnreachable})
	eight := s.submit(work.Shape{GPUs: 8}, 5)
	four := s.submit(work.Shape{GPUs: 4}, 5)
	s.run()
	require.Equal(t, "needs 8 GPUs on one node; most free on a node is 0", s.reason(eight))
	require.Equal(t, "n1:4,5,6,7", s.placed(four))
	s.apply(nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeReachable})
	s.run()
	require.Equal(t, "n2:0,1,2,3,4,5,6,7", s.placed(eight))
}

func TestPlan_noNodes(t *testing.T) {
	s := newState(t)
	j := s.submit(work.Shape{GPUs: 1}, 5)
	s.run()
	require.Equal(t, "no node is ready", s.reason(j))
}

func TestPlan_nothingNewSaysNothing(t *testing.T) {
	s := newState(t)
	require.Empty(t, s.run().Commands)
	s.node("n1", gpus("n1", "H100", 1, 1), nil)
	s.submit(work.Shape{GPUs: 1}, 5)
	s.submit(work.Shape{GPUs: 1}, 5)
	require.Equal(t, 1, s.run().Placed)
	second := s.run()
	require.Empty(t, second.Commands, "the reason was given with the placement")
	require.Len(t, second.Blocked.Keys(), 1)
}

func TestPlan_boundsOfAPass(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 16, 16), nil)
	for range 12 {
		s.submit(work.Shape{GPUs: 1}, 5)
	}
	plan := scheduler.Plan(s.machine.View(), scheduler.Options{PerCommand: 4, PerPass: 10})
	require.True(t, plan.More)
	require.Equal(t, 10, plan.Placed)
	require.Len(t, plan.Commands, 3)
	require.Len(t, plan.Commands[0].Placements, 4)
	require.Len(t, plan.Commands[2].Placements, 2)
}
