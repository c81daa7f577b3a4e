package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/preempt"
)

// breakDown ends the attempt of a gang by a fault of one rank's GPU, after it saved a checkpoint.
func (s *state) breakDown(id ident.Job, rank int) {
	s.t.Helper()
	j := s.get(id)
	s.apply(jobverbs.ReportTasks{Node: j.Tasks[0].Node, Reports: []jobverbs.TaskReport{
		{Job: id, Attempt: j.Attempt, Token: j.Token, Kind: jobverbs.ReportProgress, Step: 100 * int64(j.Attempt)},
	}})
	ended := func(t *work.Task) jobverbs.TaskReport {
		return jobverbs.TaskReport{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: jobverbs.ReportEnded}
	}
	bad := ended(&j.Tasks[rank])
	bad.ErrorType = v1.ErrorType_GPU_FAULT
	s.apply(jobverbs.ReportTasks{Node: j.Tasks[rank].Node, Reports: []jobverbs.TaskReport{bad}})
	code := int32(1)
	for i := range j.Tasks {
		if r := ended(&j.Tasks[i]); i != rank {
			r.ExitCode = &code
			s.apply(jobverbs.ReportTasks{Node: j.Tasks[i].Node, Reports: []jobverbs.TaskReport{r}})
		}
	}
	require.Equal(s.t, v1.JobState_QUEUED, s.get(id).State)
}

// falls reports that one of the eight GPUs of a node is unhealthy.
func (s *state) falls(node, kind string) {
	s.t.Helper()
	ill := gpus(node, kind, 8, 8)
	ill[0].Health = v1.GpuHealth_QUARANTINED
	require.Nil(s.t, s.apply(nodeverbs.SetNode{ID: node, Action: nodeverbs.NodeHealth, GPUs: ill})[0].(nodeverbs.NodeResult).Refusal)
}

// order returns the nodes of a job by rank.
func (s *state) order(id ident.Job) []string { return work.TaskNodes(s.get(id).Tasks) }

func (s *state) claimOf(id ident.Job) bool {
	c, ok := s.machine.View().ClaimOf(id)
	return ok && c.IsHold()
}

func TestPlan_completesAHold(t *testing.T) {
	s := newState(t)
	for _, n := range []string{"a1", "a2", "a3"} {
		s.node(n, gpus(n, "A100", 8, 8), nil)
	}
	id := s.submitRetried(work.Shape{GPUs: 8, Nodes: 3})
	s.run()
	require.Equal(t, []string{"a1", "a2", "a3"}, s.order(id))
	s.start(id)
	first := s.submit(work.Shape{GPUs: 4}, 9)
	s.falls("a2", "A100")
	s.breakDown(id, 1)
	require.True(t, s.claimOf(id))

	// No claimed place goes to others, whatever their priority; the one place without a claim does.
	s.run()
	require.Equal(t, "a2", s.get(first).Tasks[0].Node)
	require.True(t, s.get(id).Waiting())

	// Only nodes with the same GPUs complete a gang.
	s.node("h1", gpus("h1", "H100", 8, 8), nil)
	s.run()
	require.True(t, s.get(id).Waiting())
	s.node("a4", gpus("a4", "A100", 8, 8), nil)
	other := s.submit(work.Shape{GPUs: 8}, 10)
	s.run()
	require.Equal(t, []string{"a1", "a4", "a3"}, s.order(id), "the other ranks are where they were")
	require.Equal(t, "h1", s.get(other).Tasks[0].Node)
	require.False(t, s.claimOf(id))
	require.Empty(t, fsm.Check(s.machine.View()))
}

// A place that became unfit while it was claimed is replaced, too.
func TestPlan_replacesAHeldPlaceThatIsUnfit(t *testing.T) {
	s := newState(t)
	for _, n := range []string{"a1", "a2", "a3", "a4", "a5"} {
		s.node(n, gpus(n, "A100", 8, 8), nil)
	}
	id := s.submitRetried(work.Shape{GPUs: 8, Nodes: 3})
	s.run()
	s.start(id)
	had := s.order(id)
	s.breakDown(id, 0)
	require.Nil(t, s.apply(nodeverbs.SetNode{ID: had[2], Action: nodeverbs.NodeDrain})[0].(nodeverbs.NodeResult).Refusal)
	s.run()
	now := s.order(id)
	require.Equal(t, had[1], now[1])
	require.NotContains(t, []string{had[0], had[1], had[2]}, now[0])
	require.NotContains(t, []string{had[0], had[1], had[2]}, now[2])
}

// After a lost node the claimed places wait for their nodes to settle, as all places of a replacement do. When the
// claim is over, the job waits like others and the places are free.
func TestPlan_holdWaitsForSettling(t *testing.T) {
	s := newState(t)
	for _, n := range []string{"a1", "a2", "a3", "a4"} {
		s.node(n, gpus(n, "A100", 8, 8), nil)
	}
	s.ack()
	id := s.submitRetried(work.Shape{GPUs: 8, Nodes: 3})
	s.run()
	s.start(id)
	had := s.order(id)
	s.away(had[1])
	require.Equal(t, 1, s.lose(had[1], "a1", "a2", "a3", "a4"))
	j, code := s.get(id), int32(1)
	for _, rank := range []int{0, 2} {
		s.apply(jobverbs.ReportTasks{Node: had[rank], Reports: []jobverbs.TaskReport{{Job: id, Attempt: 1, Rank: uint16(rank), Token: j.Token, Kind: jobverbs.ReportEnded, ExitCode: &code}}})
	}
	require.True(t, s.claimOf(id))
	settling := scheduler.Options{Settled: func(n string) bool { return n != had[0] }}
	require.True(t, s.runWith(settling).Settling)
	require.True(t, s.get(id).Waiting())
	other := s.submit(work.Shape{GPUs: 8, Nodes: 2}, 9)
	s.runWith(settling)
	require.True(t, s.get(other).Waiting())
	s.pass(3 * time.Minute)
	s.runWith(settling)
	require.True(t, s.get(other).Live())
	require.False(t, s.claimOf(id))
}

// outages counts the failures of a large job, those after which its ranks kept their places, and the preemptions for
// it. stuck: the job waits in vain in the end.
type outages struct {
	stuck                     bool
	failures, kept, preempted int
	down                      []time.Duration
}

// endure lets a job of 128 nodes fail 35 times on a full cluster with five spare nodes: in nine of ten cases by a GPU,
// else by a node. The broken node comes back an hour later. Half of the other jobs are preemptible and of lower
// priority, half are like the job, and gangs wait that would fit on the job's nodes.
func endure(t *testing.T, hold time.Duration) outages {
	if testing.Short() {
		t.Skip("days of a cluster on one goroutine")
	}
	const nodes, busy, spare, gang = 128, 40, 5, 64
	s := newState(t)
	p := s.machine.View().Policy()
	p.Hold = int64(hold)
	require.Nil(t, s.apply(queueverbs.PutPolicy{Policy: p})[0].(queueverbs.PolicyResult).Refusal)
	large := s.job(work.Shape{GPUs: 8, Nodes: nodes}, 5)
	large.Retry = work.RetryPolicy{Max: 9, On: work.RetryInfrastructure}
	add := func(n int) {
		id := fmt.Sprintf("n%03d", n)
		s.node(id, gpus(id, "H100", 8, 8), nil)
	}
	for n := range nodes {
		add(n)
	}
	id := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{large}})[0].(jobverbs.SubmitJobsResult).Results[0].Job
	s.run()
	s.start(id)
	for n := range busy + spare {
		add(nodes + n)
	}
	var others []ident.Job
	for n := range busy {
		if n%2 == 0 {
			others = append(others, s.preemptible(work.Shape{GPUs: 8}, 1))
		} else {
			others = append(others, s.submit(work.Shape{GPUs: 8}, 5))
		}
	}
	s.run()
	for _, o := range others {
		s.start(o)
	}
	waiting := []ident.Job{s.preemptible(work.Shape{GPUs: 8, Nodes: gang}, 4), s.submit(work.Shape{GPUs: 8, Nodes: gang}, 4)}
	s.run()
	s.ack()

	var out outages
	r := rand.New(rand.NewPCG(35, 11))
	type repair struct {
		at   time.Time
		node string
	}
	var broken []repair
	look := func() {
		blocked := s.run().Blocked.Keys()
		if made := preempt.ForPriority(s.machine.View(), blocked, s.now.UnixNano()); len(made) > 0 {
			for _, m := range made {
				out.preempted += len(m.Victims)
			}
			require.Empty(t, s.apply(jobverbs.PreemptJobs{Preemptions: made})[0].(jobverbs.PreemptResult).Refused)
			for _, m := range made {
				for _, v := range m.Victims {
					s.leave(v.Job)
				}
			}
		}
		for _, w := range waiting {
			if s.get(w).State == v1.JobState_ALLOCATED {
				s.start(w)
			}
		}
		for len(broken) > 0 && broken[0].at.Before(s.now) {
			node := broken[0].node
			broken = broken[1:]
			s.node(node, gpus(node, "H100", 8, 8), nil)
			s.ack()
		}
	}
	for out.failures < 35 && !out.stuck {
		s.pass(time.Duration(20+r.IntN(40)) * time.Minute)
		look()
		had, rank, failed := s.order(id), r.IntN(nodes), s.now
		out.failures++
		if r.IntN(10) > 0 {
			s.falls(had[rank], "H100")
			s.breakDown(id, rank)
		} else {
			s.away(had[rank])
			var all []string
			for n := range s.machine.View().Nodes() {
				all = append(all, n.ID)
			}
			s.apply(jobverbs.ReportTasks{Node: had[0], Reports: []jobverbs.TaskReport{{Job: id, Attempt: s.get(id).Attempt, Token: s.get(id).Token, Kind: jobverbs.ReportProgress, Step: 100 * int64(s.get(id).Attempt)}}})
			require.Equal(t, 1, s.lose(had[rank], all...))
			j, code := s.get(id), int32(1)
			for i := range had {
				if i != rank {
					s.apply(jobverbs.ReportTasks{Node: had[i], Reports: []jobverbs.TaskReport{{Job: id, Attempt: j.Attempt, Rank: uint16(i), Token: j.Token, Kind: jobverbs.ReportEnded, ExitCode: &code}}})
				}
			}
		}
		broken = append(broken, repair{s.now.Add(time.Hour), had[rank]})
		for s.get(id).State == v1.JobState_QUEUED && s.now.Sub(failed) < time.Hour {
			look()
			if s.get(id).State == v1.JobState_QUEUED {
				s.pass(10 * time.Second)
			}
		}
		if out.stuck = !s.get(id).Live(); out.stuck {
			break
		}
		out.down = append(out.down, s.now.Sub(failed).Round(time.Second))
		s.start(id)
		same := 0
		for i, n := range s.order(id) {
			if n == had[i] {
				same++
			}
		}
		if same == nodes-1 {
			out.kept++
		}
		require.Empty(t, fsm.Check(s.machine.View()))
	}
	return out
}

func TestHold_35FailuresPreemptNobody(t *testing.T) {
	with := endure(t, 2*time.Minute)
	slices.Sort(with.down)
	t.Logf("with a hold: %d of %d failures kept 127 ranks where they were, %d preemptions; down for %v (median), %v at most",
		with.kept, with.failures, with.preempted, with.down[len(with.down)/2], with.down[len(with.down)-1])
	require.Zero(t, with.preempted)
	require.Equal(t, 35, with.kept)
	require.False(t, with.stuck)
	without := endure(t, 0)
	t.Logf("without: after %d failures %d kept their places, %d preemptions; it waits in vain: %v", without.failures, without.kept, without.preempted, without.stuck)
	require.True(t, without.stuck || without.preempted > 0, "it is the hold that spares the others")
	require.Less(t, without.kept, 35)
}
