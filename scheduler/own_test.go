package scheduler_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/scheduler"
)

// three returns a cluster of three equal nodes that have each other on their rosters.
func three(t testing.TB) *state {
	s := newState(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		s.node(n, gpus(n, "H100", 8, 8), nil)
	}
	s.ack()
	return s
}

func TestPlan_replacementsGoWhereTheLostNodeWouldAsk(t *testing.T) {
	s := three(t)
	id := s.submitRetried(work.Shape{GPUs: 8})
	s.run()
	require.Equal(t, "n1:0,1,2,3,4,5,6,7", s.placed(id))
	others := []ident.Job{s.submit(work.Shape{GPUs: 8}, 5), s.submit(work.Shape{GPUs: 8}, 5)}
	s.run()
	s.away("n1")
	s.node("n4", gpus("n4", "H100", 8, 8), nil)
	s.ack()
	require.Equal(t, 1, s.lose("n1", "n2"))
	s.run()
	require.Empty(t, s.get(id).Tasks, "n4 is free, but n1 has never heard of it")
	require.Equal(t, "needs 8 GPUs on one node; most free on a node is 0; only 2 nodes may replace node n1, "+
		"which may still run an earlier attempt: bring it back, or run `mind node forget n1`", s.reason(id))
	free := s.submit(work.Shape{GPUs: 8}, 5)
	s.run()
	require.Equal(t, "n4:0,1,2,3,4,5,6,7", s.placed(free), "nobody else is held to it")

	s.end(others[1])
	settled := map[string]bool{}
	opts := scheduler.Options{Settled: func(n string) bool { return settled[n] }}
	plan := s.runWith(opts)
	require.True(t, plan.Settling)
	require.Empty(t, s.get(id).Tasks)
	require.Contains(t, s.reason(id), "waits a few seconds, until")
	settled["n3"] = true
	plan = s.runWith(opts)
	require.False(t, plan.Settling)
	require.Equal(t, "n3:0,1,2,3,4,5,6,7", s.placed(id))
	require.True(t, s.get(id).Replacement())
}

func TestPlan_waitsForTheLostNodeWhenNobodyMayTakeOver(t *testing.T) {
	const why = "waits for node n1, which may still run an earlier attempt, and no other node may replace it: bring it back, or run `mind node forget n1`"
	ends := map[string]func(s *state, ref work.TaskRef){
		"forgotten": func(s *state, _ work.TaskRef) { s.apply(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeForget}) },
		"restarted": func(s *state, _ work.TaskRef) {
			n := testNode("n1")
			n.BootID = "b2"
			s.apply(nodeverbs.RegisterNode{Node: n})
		},
		"back without the task": func(s *state, _ work.TaskRef) { s.apply(nodeverbs.RegisterNode{Node: testNode("n1")}) },
		"back with the task, which then ends": func(s *state, ref work.TaskRef) {
			s.apply(nodeverbs.RegisterNode{Node: testNode("n1"), Tasks: []work.TaskRef{ref}})
			s.run()
			require.Empty(s.t, s.get(ref.Job).Tasks)
			require.Equal(s.t, why, s.reason(ref.Job))
			s.apply(jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{
				{Job: ref.Job, Attempt: ref.Attempt, Token: ref.Token, Kind: jobverbs.ReportEnded},
			}})
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			s := three(t)
			id := s.submitRetried(work.Shape{GPUs: 1})
			s.run()
			ref := work.TaskRef{Job: id, Attempt: 1, Token: s.get(id).Token}
			s.away("n1")
			require.Equal(t, 1, s.lose("n1", "n3"))
			// The nodes that could have run the replacement leave, and register again.
			for _, n := range []string{"n2", "n3"} {
				s.away(n)
				s.apply(nodeverbs.RegisterNode{Node: testNode(n)})
			}
			s.run()
			require.Empty(t, s.get(id).Tasks)
			require.Equal(t, why, s.reason(id))
			require.Empty(t, s.run().Commands, "it is said once")
			end(s, ref)
			s.run()
			require.NotEmpty(t, s.get(id).Tasks)
			require.NotEqual(t, "n1", s.get(id).Tasks[0].Node, "it failed there")
			require.False(t, s.get(id).Replacement())
		})
	}
}

func testNode(id string) work.Node {
	return work.Node{
		ID: id, Hostname: id, BootID: "b1", AgentVersion: "test", GRPCAddr: id + ":1", GPUs: gpus(id, "H100", 8, 8), CPUs: 64, MemMB: 512 << 10,
	}
}

func TestPlan_staysAwayFromWhereItFailed(t *testing.T) {
	s := three(t)
	id := s.submitRetried(work.Shape{GPUs: 4})
	s.run()
	require.Equal(t, "n1:0,1,2,3", s.placed(id))
	s.fail(id, 0)
	first := s.submit(work.Shape{GPUs: 8}, 9)
	for range 2 {
		s.submit(work.Shape{GPUs: 8}, 9)
	}
	s.run()
	require.Equal(t, []string{"n1"}, s.nodes(first))
	s.end(first)
	s.run()
	require.Empty(t, s.get(id).Tasks, "two nodes are full and the third one failed it: the two will be free one day")
	require.Equal(t, "needs 4 GPUs on one node; most free on a node is 0; not on n1, where an attempt failed", s.reason(id))
	young := s.submit(work.Shape{GPUs: 4}, 5)
	s.run()
	require.Equal(t, "n1:0,1,2,3", s.placed(young), "others may go there")
	s.apply(nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeForget})
	s.apply(nodeverbs.SetNode{ID: "n3", Action: nodeverbs.NodeDrain})
	s.run()
	require.Equal(t, "n1:4,5,6,7", s.placed(id), "there is no other node for it")
}

func TestPlan_takesANodeThatFailedWhenNoOtherCouldEverDo(t *testing.T) {
	for name, c := range map[string]struct {
		others func(s *state)
		shape  work.Shape
		away   bool
	}{
		"another like it":     {func(s *state) { s.node("b", gpus("b", "H100", 8, 8), nil) }, work.Shape{GPUs: 4}, true},
		"nobody else":         {func(*state) {}, work.Shape{GPUs: 4}, false},
		"too few GPUs":        {func(s *state) { s.node("b", gpus("b", "H100", 2, 2), nil) }, work.Shape{GPUs: 4}, false},
		"other GPUs":          {func(s *state) { s.node("b", gpus("b", "L4", 8, 8), nil) }, work.Shape{GPUs: 4, GPUType: "H100"}, false},
		"sick GPUs":           {func(s *state) { s.node("b", sick(gpus("b", "H100", 8, 8)), nil) }, work.Shape{GPUs: 4}, false},
		"too little memory":   {func(s *state) { s.node("b", gpus("b", "H100", 8, 8), nil) }, work.Shape{GPUs: 4, MemMB: 600 << 10}, false},
		"not linked":          {func(s *state) { s.node("b", gpus("b", "H100", 8, 2), nil) }, work.Shape{GPUs: 4, Topology: work.TopologyNVLink}, false},
		"linked":              {func(s *state) { s.node("b", gpus("b", "H100", 8, 4), nil) }, work.Shape{GPUs: 4, Topology: work.TopologyNVLink}, true},
		"a fraction":          {func(s *state) { s.node("b", gpus("b", "H100", 1, 1), nil) }, work.Shape{FractionMilli: 500}, true},
		"no GPU asked for":    {func(s *state) { s.node("b", nil, nil) }, work.Shape{CPUs: 4}, true},
		"no GPU, nobody else": {func(*state) {}, work.Shape{CPUs: 4}, false},
		"a fraction, alone":   {func(*state) {}, work.Shape{FractionMilli: 500}, false},
		"without the label":   {func(s *state) { s.node("b", gpus("b", "H100", 8, 8), nil) }, work.Shape{GPUs: 4, Selector: "zone=a"}, false},
		"drained by now": {func(s *state) {
			s.node("b", gpus("b", "H100", 8, 8), nil)
			s.apply(nodeverbs.SetNode{ID: "b", Action: nodeverbs.NodeDrain})
		}, work.Shape{GPUs: 4}, false},
		"cannot be reached":    {func(s *state) { s.node("b", gpus("b", "H100", 8, 8), nil); s.away("b") }, work.Shape{GPUs: 4}, false},
		"big, but of one rank": {func(s *state) { s.node("b", gpus("b", "A100", 8, 8), nil) }, work.Shape{GPUs: 4}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(t)
			big := testNode("a")
			big.Labels, big.MemMB = map[string]string{"zone": "a"}, 1<<20
			s.apply(nodeverbs.RegisterNode{Node: big})
			id := s.submitRetried(c.shape)
			s.run()
			require.Equal(t, "a", s.get(id).Tasks[0].Node)
			s.fail(id, 0)
			c.others(s)
			s.run()
			require.Len(t, s.get(id).Tasks, 1)
			require.Equal(t, c.away, s.get(id).Tasks[0].Node != "a")
		})
	}
}

func sick(g []work.GPU) []work.GPU {
	for i := range g {
		g[i].Health = v1.GpuHealth_QUARANTINED
	}
	return g
}

// A gang avoids the nodes on which it failed, as long as enough equal nodes are left.
func TestPlan_aGangAvoidsWhatItCan(t *testing.T) {
	s := newState(t)
	for _, n := range []string{"a1", "a2", "a3"} {
		s.node(n, gpus(n, "A100", 8, 8), nil)
	}
	id := s.submitRetried(work.Shape{Nodes: 2, GPUs: 8})
	s.run()
	require.Equal(t, []string{"a1", "a2"}, s.nodes(id))
	s.fail(id, 0)
	s.run()
	require.Equal(t, []string{"a2", "a3"}, s.nodes(id), "not a1")
	s.fail(id, 1)
	s.node("h1", gpus("h1", "H100", 8, 8), nil)
	s.run()
	require.Equal(t, []string{"a1", "a2"}, s.nodes(id), "not a3, which failed last; h1 has other GPUs")
	s.fail(id, 0)
	s.node("h2", gpus("h2", "H100", 8, 8), nil)
	s.run()
	require.Equal(t, []string{"h1", "h2"}, s.nodes(id))
}

func (s *state) nodes(id ident.Job) []string {
	var out []string
	for _, t := range s.get(id).Tasks {
		out = append(out, t.Node)
	}
	slices.Sort(out)
	return out
}

// A rack is lost: hundreds of jobs are classes of their own, and take about as much time as ordinary classes.
func BenchmarkPlan_NoChange_1000Replacements(b *testing.B) {
	s := loaded(b, 100_000)
	s.ack()
	var retried jobverbs.SubmitJobs
	for range 1000 {
		j := s.job(work.Shape{GPUs: 1}, 9)
		j.Retry = work.RetryPolicy{Max: 3, On: work.RetryInfrastructure}
		retried.Jobs = append(retried.Jobs, j)
	}
	s.apply(retried)
	for _, c := range scheduler.Plan(s.machine.View(), scheduler.Options{}).Commands {
		s.apply(c)
	}
	lost := 0
	for i := range 125 {
		node := fmt.Sprintf("n%04d", i)
		s.away(node)
		lost += s.lose(node, "n1000")
	}
	require.Equal(b, 1000, lost)
	opts := scheduler.Options{Settled: func(string) bool { return true }}
	for _, c := range scheduler.Plan(s.machine.View(), opts).Commands {
		s.apply(c)
	}
	v := s.machine.View()
	b.ReportAllocs()
	for b.Loop() {
		if plan := scheduler.Plan(v, opts); len(plan.Commands) > 0 {
			b.Fatalf("%d commands", len(plan.Commands))
		}
	}
}
