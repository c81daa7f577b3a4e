package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/scheduler/preempt"
	"github.com/mindcoordinator/mind/scheduler/quota"
)

// borrower submits a preemptible job to a queue.
func (s *state) borrower(queue string, priority uint8, shape work.Shape) ident.Job {
	s.t.Helper()
	j := s.job(shape, priority)
	j.Queue, j.Preemptible, j.Grace = queue, true, int64(30*time.Second)
	r := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}})[0].(jobverbs.SubmitJobsResult)
	require.Nil(s.t, r.Results[0].Refusal)
	return r.Results[0].Job
}

func (s *state) guarantee(queue, parent string, gpus uint32) {
	s.t.Helper()
	require.Nil(s.t, s.apply(queueverbs.PutQueue{Queue: work.Queue{Name: queue, Parent: parent, Guaranteed: gpus}})[0].(queueverbs.QueueResult).Refusal)
}

// reclaim plans, chooses victims and applies the preemptions. None may be refused.
func (s *state) reclaim() []jobverbs.Preemption {
	s.t.Helper()
	blocked := s.run().Blocked.Keys()
	made := preempt.ForGuarantees(s.machine.View(), blocked, s.now.UnixNano())
	if len(made) > 0 {
		r := s.apply(jobverbs.PreemptJobs{Preemptions: made})[0].(jobverbs.PreemptResult)
		require.Empty(s.t, r.Refused)
		require.Empty(s.t, fsm.Check(s.machine.View()))
	}
	return made
}

func (s *state) startAll(ids ...ident.Job) {
	for _, id := range ids {
		s.start(id)
	}
}

func TestPlan_whoIsBelowItsGuaranteeComesFirst(t *testing.T) {
	s := newState(t)
	s.node("a", gpus("a", "H100", 4, 4), nil)
	s.guarantee("prod", "", 2)
	s.guarantee("lab", "", 3)
	first := s.borrower("default", 10, work.Shape{GPUs: 1})
	prod := []ident.Job{s.borrower("prod", 1, work.Shape{GPUs: 1}), s.borrower("prod", 1, work.Shape{GPUs: 1}), s.borrower("prod", 1, work.Shape{GPUs: 1})}
	lab := []ident.Job{s.borrower("lab", 1, work.Shape{GPUs: 1}), s.borrower("lab", 1, work.Shape{GPUs: 1})}
	require.Equal(t, 4, s.run().Placed)
	for _, id := range []ident.Job{prod[0], prod[1], lab[0], lab[1]} {
		require.NotEmpty(t, s.placed(id))
	}
	require.Empty(t, s.placed(first), "it would borrow, whatever its priority")
	require.Empty(t, s.placed(prod[2]))
}

func TestReclaim_theMostSaturatedGivesBackFirst(t *testing.T) {
	s := newState(t)
	s.node("a", gpus("a", "H100", 8, 8), nil)
	s.guarantee("prod", "", 2)
	s.guarantee("lab", "", 2)
	s.guarantee("text", "", 1)
	var lab, text []ident.Job
	for range 4 {
		lab, text = append(lab, s.borrower("lab", 9, work.Shape{GPUs: 1})), append(text, s.borrower("text", 9, work.Shape{GPUs: 1}))
	}
	require.Equal(t, 8, s.run().Placed)
	s.startAll(append(lab, text...)...)
	owner := s.borrower("prod", 0, work.Shape{GPUs: 2})
	made := s.reclaim()
	require.Len(t, made, 1)
	require.Len(t, made[0].Victims, 2)
	for _, v := range made[0].Victims {
		require.Equal(t, "text", s.get(v.Job).Queue, "4 of 1 is more than 4 of 2, and 3 of 1, too")
		require.Equal(t, reason.ReclaimedFor, s.get(v.Job).Reason.Code())
	}
	require.Empty(t, s.reclaim(), "what is under way is not asked for again")
	for _, v := range made[0].Victims {
		s.leave(v.Job)
	}
	require.Equal(t, v1.JobState_ALLOCATED, s.get(owner).State)

	// Nothing takes the GPUs back, neither a guarantee nor a priority.
	s.start(owner)
	s.pass(3 * time.Hour)
	s.borrower("text", 10, work.Shape{GPUs: 1})
	require.Empty(t, s.reclaim())
	for _, m := range preempt.ForPriority(s.machine.View(), s.run().Blocked.Keys(), s.now.UnixNano()) {
		for _, v := range m.Victims {
			require.NotEqual(t, owner, v.Job)
		}
	}
}

func TestReclaim_whatItLeavesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		need  uint16
		queue string
		fixed bool
	}{
		"a job that is not preemptible":       {2, "prod", true},
		"for more than is guaranteed":         {3, "prod", false},
		"for a queue that is guaranteed none": {2, "default", false},
		"what is within another guarantee":    {2, "small", false},
		"for a queue whose parent is full":    {2, "below", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(t)
			s.node("a", gpus("a", "H100", 4, 4), nil)
			s.guarantee("prod", "", 2)
			s.guarantee("full", "", 4)
			s.guarantee("below", "full", 0)
			s.guarantee("small", "", 2)
			holder := "lab"
			s.guarantee("lab", "", 0)
			if c.queue == "small" || c.queue == "below" {
				holder = "full"
			}
			j := s.job(work.Shape{GPUs: 4}, 1)
			j.Queue, j.Preemptible = holder, !c.fixed
			held := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}})[0].(jobverbs.SubmitJobsResult).Results[0].Job
			s.run()
			s.start(held)
			s.borrower(c.queue, 9, work.Shape{GPUs: c.need})
			require.Empty(t, s.reclaim())
		})
	}
}

func TestReclaim_insideATreeTheGuaranteeOfAPartCounts(t *testing.T) {
	s := newState(t)
	s.node("a", gpus("a", "H100", 4, 4), nil)
	s.guarantee("research", "", 4)
	s.guarantee("text", "research", 2)
	s.guarantee("vision", "research", 2)
	var held []ident.Job
	for range 4 {
		held = append(held, s.borrower("vision", 9, work.Shape{GPUs: 1}))
	}
	s.run()
	s.startAll(held...)
	s.borrower("default", 10, work.Shape{GPUs: 1})
	require.Empty(t, s.reclaim())
	s.borrower("text", 0, work.Shape{GPUs: 2})
	made := s.reclaim()
	require.Len(t, made, 1)
	require.Len(t, made[0].Victims, 2)
	s.borrower("text", 0, work.Shape{GPUs: 1})
	require.Empty(t, s.reclaim(), "its guarantee is promised")
}

// TestReclaim_isKept draws clusters and queues and fills them with preemptible jobs. It checks that a job within the
// guarantee of its queue gets its GPUs after at most one round for each waiting job, that the state refuses no proposal
// of the scheduler, and that no queue loses guaranteed GPUs.
func TestReclaim_isKept(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newState(t)
		total := 0
		for i := range rapid.IntRange(1, 3).Draw(r, "nodes") {
			id := string(rune('a' + i))
			s.node(id, gpus(id, "H100", 4, 4), nil)
			total += 4
		}
		queues := []string{"q0", "q1", "q2"}
		left := total
		most := map[string]int{}
		for _, q := range queues {
			most[q] = rapid.IntRange(0, left).Draw(r, q)
			left -= most[q]
			s.guarantee(q, "", uint32(most[q]))
		}
		var held []ident.Job
		for range rapid.IntRange(1, 3*total).Draw(r, "jobs") {
			held = append(held, s.borrower(rapid.SampledFrom(queues).Draw(r, "queue"), uint8(rapid.IntRange(0, 10).Draw(r, "priority")), work.Shape{GPUs: 1}))
		}
		for s.run().Placed > 0 {
		}
		for _, id := range held {
			if s.get(id).Live() {
				s.start(id)
			}
		}
		for range 3 {
			s.borrower(rapid.SampledFrom(queues).Draw(r, "owner"), uint8(rapid.IntRange(0, 10).Draw(r, "priority")), work.Shape{GPUs: 1})
		}
		within := func() map[string]int {
			is := map[string]int{}
			for _, q := range queues {
				is[q] = min(s.machine.View().QueueTreeGPUs(q), 1000*most[q])
			}
			return is
		}
		rounds := 0
		for made := s.reclaim(); len(made) > 0; made = s.reclaim() {
			rounds++
			require.LessOrEqual(r, rounds, total, "it comes to an end")
			was := within()
			for _, m := range made {
				require.Len(r, m.Victims, 1, "no more than needed")
				for _, v := range m.Victims {
					s.leave(v.Job)
				}
			}
			for q, n := range within() {
				require.GreaterOrEqual(r, n, was[q], "queue %s lost what it is guaranteed", q)
			}
			s.pass(time.Second)
		}
		v := s.machine.View()
		for key := range v.Classes() {
			require.Greater(r, v.QueueTreeGPUs(key.Queue)+1000, 1000*most[key.Queue], "jobs of queue %s wait within its guarantee", key.Queue)
		}
	})
}

func TestPlan_takesTypesThatTheLimitsLeave(t *testing.T) {
	s := newState(t)
	s.node("a", gpus("a", "H100", 4, 4), nil)
	s.node("b", gpus("b", "A100", 4, 4), nil)
	require.Nil(t, s.apply(queueverbs.PutQuota{Tenant: "t", MaxByType: typed.Limits{{Type: "A100", GPUs: 3}, {Type: "H100", GPUs: 2}}})[0].(queueverbs.QuotaResult).Refusal)
	var jobs []ident.Job
	for range 8 {
		jobs = append(jobs, s.submit(work.Shape{GPUs: 1}, 5))
	}
	s.submit(work.Shape{GPUs: 1, GPUType: "H100"}, 1)
	require.Equal(t, 5, s.run().Placed)
	v := s.machine.View()
	require.Equal(t, 2000, v.HeldOfType("t", "H100"))
	require.Equal(t, 3000, v.HeldOfType("t", "A100"))
	s.run()
	require.Contains(t, s.reason(jobs[7]), "tenant quota: ")
	require.Contains(t, s.reason(jobs[7]), "GPUs in use, and it needs 1")
	require.Empty(t, s.run().Commands)
	require.Contains(t, words.Of(quota.NeverByType(v, "t", "default", work.Shape{Nodes: 1, GPUs: 4})), "it needs 4")
	require.Empty(t, quota.NeverByType(v, "t", "default", work.Shape{Nodes: 1, GPUs: 3}))
	require.Empty(t, quota.NeverByType(v, "other", "default", work.Shape{Nodes: 1, GPUs: 4}))
}

func TestPlan_waitsForTheNextMonth(t *testing.T) {
	s := newState(t)
	s.now = time.Date(2026, 1, 31, 22, 0, 0, 0, time.UTC)
	s.node("a", gpus("a", "H100", 4, 4), nil)
	hours := int32(2)
	s.apply(queueverbs.PutQuota{Tenant: "t", MaxGPUHours: &hours})
	p := s.machine.View().Policy()
	never := int32(policy.NeverForHours)
	p.HoursGrace = &never
	s.apply(queueverbs.PutPolicy{Policy: p})
	first := s.submit(work.Shape{GPUs: 2}, 5)
	s.run()
	s.start(first)
	s.pass(time.Hour)
	waits := s.submit(work.Shape{GPUs: 1}, 5)
	s.run()
	require.Equal(t, "tenant quota: 2 of 2 hours of GPU time used in this month; jobs with GPUs start again on 2026-02-01", s.reason(waits))
	at, ok := s.machine.View().NextDue()
	require.True(t, ok)
	require.Equal(t, time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC).UnixNano(), at, "a tick is due then")
	s.pass(time.Hour)
	require.Equal(t, 1, s.run().Placed)
	require.NotEmpty(t, s.placed(waits))
}
