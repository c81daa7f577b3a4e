package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
	"github.com/mindcoordinator/mind/scheduler/preempt"
)

// preemptible submits a job that may be preempted.
func (s *state) preemptible(shape work.Shape, priority uint8) ident.Job {
	s.t.Helper()
	j := s.job(shape, priority)
	j.Preemptible, j.Grace = true, int64(30*time.Second)
	r := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}})[0].(jobverbs.SubmitJobsResult)
	require.Nil(s.t, r.Results[0].Refusal)
	return r.Results[0].Job
}

// start reports that all tasks of a job run.
func (s *state) start(id ident.Job) {
	s.t.Helper()
	j := s.get(id)
	for _, task := range j.Tasks {
		s.apply(jobverbs.ReportTasks{Node: task.Node, Reports: []jobverbs.TaskReport{
			{Job: id, Attempt: j.Attempt, Rank: task.Rank, Token: j.Token, Kind: jobverbs.ReportStarting},
			{Job: id, Attempt: j.Attempt, Rank: task.Rank, Token: j.Token, Kind: jobverbs.ReportRunning},
		}})
	}
}

func (s *state) saves(id ident.Job, path string) {
	s.t.Helper()
	j := s.get(id)
	r := s.apply(jobverbs.ReportTasks{Node: j.Tasks[0].Node, Reports: []jobverbs.TaskReport{{
		Job: id, Attempt: j.Attempt, Token: j.Token, Kind: jobverbs.ReportCheckpoint, Path: path, Step: 10, Digest: "sha256:00", SizeBytes: 1,
	}}})[0].(jobverbs.ReportResult)
	require.Len(s.t, r.Checkpoints, 1)
}

// preempt plans, chooses victims for the blocked classes and applies the preemptions. None may be refused.
func (s *state) preempt() []jobverbs.Preemption {
	s.t.Helper()
	blocked := s.run().Blocked.Keys()
	made := preempt.ForPriority(s.machine.View(), blocked, s.now.UnixNano())
	if len(made) == 0 {
		return nil
	}
	r := s.apply(jobverbs.PreemptJobs{Preemptions: made})[0].(jobverbs.PreemptResult)
	require.Empty(s.t, r.Refused)
	require.Len(s.t, r.Claimed, len(made))
	require.Empty(s.t, fsm.Check(s.machine.View()))
	return made
}

// leave reports that all tasks of a job that was asked to stop have ended.
func (s *state) leave(id ident.Job) {
	s.t.Helper()
	j := s.get(id)
	code := int32(75)
	for _, task := range j.Tasks {
		s.apply(jobverbs.ReportTasks{Node: task.Node, Reports: []jobverbs.TaskReport{
			{Job: id, Attempt: j.Attempt, Rank: task.Rank, Token: j.Token, Kind: jobverbs.ReportEnded, ExitCode: &code},
		}})
	}
	require.False(s.t, s.get(id).Live() && s.get(id).Attempt == j.Attempt)
}

func (s *state) pass(d time.Duration) {
	s.now = s.now.Add(d)
	s.apply(clusterverbs.Tick{Settled: true})
}

// busy returns a cluster whose nodes are full of preemptible jobs of priority 1 that have run for some time.
func busy(t testing.TB, nodes, gpusEach, jobGPUs int, ran time.Duration) (*state, []ident.Job) {
	s := newState(t)
	var jobs []ident.Job
	for i := range nodes {
		id := string(rune('a' + i))
		s.node(id, gpus(id, "H100", gpusEach, gpusEach), nil)
		for range gpusEach / jobGPUs {
			jobs = append(jobs, s.preemptible(work.Shape{GPUs: uint16(jobGPUs)}, 1))
		}
	}
	s.run()
	for _, id := range jobs {
		s.start(id)
	}
	s.pass(ran)
	return s, jobs
}

func TestPreempt_aJobOfHigherPriorityGetsItsPlacesWhenItsVictimsHaveLeft(t *testing.T) {
	s, jobs := busy(t, 2, 8, 4, 3*time.Hour)
	urgent := s.submit(work.Shape{Nodes: 2, GPUs: 8}, 9)
	made := s.preempt()
	require.Len(t, made, 1)
	require.Len(t, made[0].Victims, 4, "both nodes are needed whole")
	for _, id := range jobs {
		require.Equal(t, v1.StopReason_PREEMPT, s.get(id).Stop)
		require.Equal(t, reason.PreemptedFor, s.get(id).Reason.Code())
	}
	require.Empty(t, s.preempt(), "what is under way is not asked for again")

	// Released GPUs are kept for the job: an older small job does not get them.
	small := s.submit(work.Shape{GPUs: 1}, 10)
	for _, id := range jobs[:3] {
		s.leave(id)
		s.run()
		require.Equal(t, v1.JobState_QUEUED, s.get(id).State)
		require.Equal(t, v1.JobState_QUEUED, s.get(small).State)
		require.Equal(t, v1.JobState_QUEUED, s.get(urgent).State)
	}
	before := s.index
	s.leave(jobs[3])
	require.Equal(t, v1.JobState_ALLOCATED, s.get(urgent).State, "granted by the entry that released the last of it")
	require.Equal(t, before+1, s.get(urgent).Token)
	require.Zero(t, s.machine.View().ClaimCount())
	require.Empty(t, fsm.Check(s.machine.View()))
	require.EqualValues(t, 1, s.get(jobs[0]).Retries.Preempted)
}

func TestPreempt_takesThoseThatLoseTheLeastAndNoMoreThanNeeded(t *testing.T) {
	s, jobs := busy(t, 1, 8, 2, 3*time.Hour)
	s.saves(jobs[2], "/ckpt/2")
	s.submit(work.Shape{GPUs: 2}, 5)
	made := s.preempt()
	require.Equal(t, []jobverbs.Victim{{Job: jobs[2], Attempt: 1}}, made[0].Victims, "it has just saved a checkpoint")

	s, jobs = busy(t, 2, 8, 4, 3*time.Hour)
	s.end(jobs[3])
	s.submit(work.Shape{GPUs: 8}, 5)
	made = s.preempt()
	require.Equal(t, []jobverbs.Victim{{Job: jobs[2], Attempt: 1}}, made[0].Victims, "the node that is half free needs one only")
}

func TestPreempt_whoIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		ran      time.Duration
		priority uint8
		change   func(s *state, jobs []ident.Job)
	}{
		"one that is protected": {ran: time.Hour, priority: 9, change: func(s *state, _ []ident.Job) {
			p := s.machine.View().Policy()
			p.Preemption.ProtectFromPriority = int64(2 * time.Hour)
			s.apply(queueverbs.PutPolicy{Policy: p})
		}},
		"one of the same priority": {ran: 3 * time.Hour, priority: 1},
		"one that is stopped anyway": {ran: 3 * time.Hour, priority: 9, change: func(s *state, jobs []ident.Job) {
			s.apply(jobverbs.ControlJob{Job: jobs[0], Action: work.ActionCancel})
		}},
		"for a job beyond its own quota": {ran: 3 * time.Hour, priority: 9, change: func(s *state, _ []ident.Job) {
			most := int32(7)
			s.apply(queueverbs.PutQuota{Tenant: "t", MaxGPUs: &most})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, jobs := busy(t, 1, 8, 8, c.ran)
			if c.change != nil {
				c.change(s, jobs)
			}
			s.submit(work.Shape{GPUs: 8}, c.priority)
			require.Empty(t, s.preempt())
		})
	}
	s := newState(t)
	s.node("a", gpus("a", "H100", 8, 8), nil)
	fixed := s.submit(work.Shape{GPUs: 8}, 1)
	s.run()
	s.start(fixed)
	s.pass(3 * time.Hour)
	s.submit(work.Shape{GPUs: 8}, 9)
	require.Empty(t, s.preempt(), "not preemptible")
}

// Nobody says how long an attempt is protected from a higher priority: it is not, however short it has run.
func TestPreempt_anUrgentJobDoesNotWait(t *testing.T) {
	s, jobs := busy(t, 1, 8, 8, time.Second)
	s.submit(work.Shape{GPUs: 8}, 2)
	require.Equal(t, []jobverbs.Victim{{Job: jobs[0], Attempt: 1}}, s.preempt()[0].Victims)
}

func TestPreempt_aQuotaThatTheVictimsFillIsTheirs(t *testing.T) {
	s, jobs := busy(t, 1, 8, 8, 3*time.Hour)
	most := int32(8)
	s.apply(queueverbs.PutQuota{Tenant: "t", MaxGPUs: &most})
	urgent := s.submit(work.Shape{GPUs: 8}, 9)
	require.Len(t, s.preempt(), 1)
	s.leave(jobs[0])
	require.Equal(t, v1.JobState_ALLOCATED, s.get(urgent).State)
}

func TestPreempt_theNoticeClosesWhenTheCheckpointIsCommitted(t *testing.T) {
	s, jobs := busy(t, 1, 8, 8, 3*time.Hour)
	s.submit(work.Shape{GPUs: 8}, 9)
	require.Len(t, s.preempt(), 1)
	require.Equal(t, int64(30*time.Second), s.get(jobs[0]).StopGrace)
	s.saves(jobs[0], "/ckpt/1")
	require.Equal(t, claims.ClosingGrace, s.get(jobs[0]).StopGrace)
	require.Equal(t, v1.StopReason_PREEMPT, s.get(jobs[0]).Stop)
}

// Only the leader knows where a job may run whose last attempt may still be alive (rule R3). So an entry that reports
// the end of another job's task grants it nothing.
func TestPreempt_notForAJobThatMayStillRun(t *testing.T) {
	s, jobs := busy(t, 2, 8, 8, 3*time.Hour)
	s.node("z", gpus("z", "H100", 8, 8), nil)
	s.ack()
	j := s.job(work.Shape{GPUs: 8}, 9)
	j.Retry = work.RetryPolicy{Max: 9, On: work.RetryInfrastructure}
	lost := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}})[0].(jobverbs.SubmitJobsResult).Results[0].Job
	s.run()
	require.Equal(t, "z:0,1,2,3,4,5,6,7", s.placed(lost))
	s.start(lost)
	s.away("z")
	s.pass(10 * time.Minute)
	require.Equal(t, 1, s.lose("z", "a", "b"))
	require.True(t, s.get(lost).Replacement())
	require.Empty(t, s.preempt())
	r := s.apply(jobverbs.PreemptJobs{Preemptions: []jobverbs.Preemption{{
		Job: lost, Attempt: 2, Tasks: []work.TaskPlacement{{Node: "a", GPUs: 0xff}}, Victims: []jobverbs.Victim{{Job: jobs[0], Attempt: 1}},
	}}})[0].(jobverbs.PreemptResult)
	require.Equal(t, reason.MayNotTakeOver, r.Refused[0].Reason.Code())
}

// A claim ends when its job no longer waits, and when its time is over.
func TestPreempt_claimsEnd(t *testing.T) {
	s, jobs := busy(t, 1, 8, 4, 3*time.Hour)
	urgent := s.submit(work.Shape{GPUs: 8}, 9)
	require.Len(t, s.preempt(), 1)
	s.leave(jobs[0])
	s.apply(jobverbs.ControlJob{Job: urgent, Action: work.ActionCancel})
	require.Zero(t, s.machine.View().ClaimCount())
	s.run()
	require.Equal(t, v1.JobState_ALLOCATED, s.get(jobs[0]).State, "its place is free again")

	s, jobs = busy(t, 1, 8, 4, 3*time.Hour)
	urgent = s.submit(work.Shape{GPUs: 8}, 9)
	require.Len(t, s.preempt(), 1)
	s.leave(jobs[0])
	s.pass(time.Minute)
	require.Equal(t, 1, s.machine.View().ClaimCount())
	s.pass(2 * time.Minute)
	require.Zero(t, s.machine.View().ClaimCount(), "a victim does not leave, and keeps the GPUs of the other from all")
	require.Empty(t, fsm.Check(s.machine.View()))
	s.leave(jobs[1])
	s.run()
	require.Equal(t, v1.JobState_ALLOCATED, s.get(urgent).State)
}

// A place that has become unfit when the last victim leaves is not granted.
func TestPreempt_aNodeThatBreaksMeanwhile(t *testing.T) {
	s, jobs := busy(t, 1, 8, 8, 3*time.Hour)
	urgent := s.submit(work.Shape{GPUs: 8}, 9)
	require.Len(t, s.preempt(), 1)
	s.apply(nodeverbs.SetNode{ID: "a", Action: nodeverbs.NodeDrain})
	s.leave(jobs[0])
	require.Equal(t, v1.JobState_QUEUED, s.get(urgent).State)
	require.Zero(t, s.machine.View().ClaimCount())
	require.Empty(t, fsm.Check(s.machine.View()))
}

// For random clusters, the state refuses no preemption, and its invariants hold at each step. When all victims have
// left, the jobs that they left for run.
func TestPreempt_properties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newState(t)
		drawNodes(r, s)
		for range rapid.IntRange(1, 4).Draw(r, "rounds") {
			for range rapid.IntRange(0, 12).Draw(r, "victims") {
				s.preemptible(work.Shape{
					Nodes: uint16(rapid.IntRange(1, 2).Draw(r, "size")), GPUs: uint16(rapid.IntRange(1, 4).Draw(r, "each")),
				}, uint8(rapid.IntRange(0, 5).Draw(r, "priority")))
			}
			s.run()
			for j := range s.machine.View().ActiveJobs() {
				if rapid.Bool().Draw(r, "starts") {
					s.start(j.ID)
				}
			}
			s.pass(time.Duration(rapid.IntRange(0, 300).Draw(r, "minutes")) * time.Minute)
			drawJobs(r, s)
			drawLimits(r, s)
			made := s.preempt()
			for _, m := range made {
				j := s.get(m.Job)
				for _, v := range m.Victims {
					require.Less(r, s.get(v.Job).Priority, j.Priority)
				}
			}
			if rapid.Bool().Draw(r, "all leave") {
				for j := range s.machine.View().ActiveJobs() {
					if j.Stop == v1.StopReason_PREEMPT {
						s.leave(j.ID)
						require.Empty(r, fsm.Check(s.machine.View()))
					}
				}
				for _, m := range made {
					require.True(r, s.get(m.Job).Live(), "%s has its places", m.Job)
				}
			}
			drawEnds(r, s)
			drawLosses(r, s)
			require.Empty(r, fsm.Check(s.machine.View()))
		}
	})
}

// TestPreempt_aWindowKeepsItsNodes checks that no job is preempted for a place that the state would refuse.
func TestPreempt_aWindowKeepsItsNodes(t *testing.T) {
	s, _ := busy(t, 2, 8, 8, 3*time.Hour)
	now := s.machine.View().Now()
	s.apply(windowverbs.PutWindow{Name: "disks", Kind: windows.Maintenance, Patterns: []string{"*"}, From: now + int64(time.Hour), Until: now + int64(2*time.Hour)})
	s.submit(work.Shape{GPUs: 8}, 9)
	require.Empty(t, s.preempt(), "it has no limit, so it would not be over by then")
	short := s.submitAs(work.Shape{GPUs: 8}, func(n *jobverbs.NewJob) { n.MaxRuntime, n.Priority = int64(20*time.Minute), 9 })
	made := s.preempt()
	require.Len(t, made, 1)
	require.Equal(t, short, made[0].Job)
}

// TestPreempt_whatIsPromisedIsTakenByHigherPrioritiesOnly checks that only jobs of a higher priority than its job take
// reserved places.
func TestPreempt_whatIsPromisedIsTakenByHigherPrioritiesOnly(t *testing.T) {
	b := newBackfilled(t, 8, 0)
	s := b.state
	s.node("a", gpus("a", "H100", 8, 8), nil)
	running := s.preemptible(work.Shape{GPUs: 8}, 1)
	s.run()
	s.start(running)
	s.pass(3 * time.Hour)
	promised := s.submitAs(work.Shape{GPUs: 8}, func(n *jobverbs.NewJob) { n.Priority, n.MaxRuntime = 5, int64(time.Hour) })
	promise := func(at time.Duration) {
		r := s.apply(jobverbs.PromiseStarts{Starts: []jobverbs.Start{{
			Job: promised, Attempt: 1, At: s.machine.View().Now() + int64(at), Tasks: []work.TaskPlacement{{Node: "a", GPUs: 0xff}},
		}}})[0].(jobverbs.PromiseResult)
		require.Empty(t, r.Refused)
	}
	promise(time.Hour)
	victims := func() int {
		return len(preempt.ForPriority(s.machine.View(), s.run().Blocked.Keys(), s.now.UnixNano()))
	}
	s.apply(jobverbs.ControlJob{Job: promised, Action: work.ActionPause})
	require.Empty(t, s.machine.View().PromiseCount(), "who is paused is promised nothing")
	s.apply(jobverbs.ControlJob{Job: promised, Action: work.ActionResume})
	promise(time.Hour)

	same := s.submit(work.Shape{GPUs: 4}, 5)
	made := preempt.ForPriority(s.machine.View(), []work.ClassKey{s.get(same).Class()}, s.now.UnixNano())
	require.Empty(t, made, "it has no limit, and would delay what is promised")
	short := s.submitAs(work.Shape{GPUs: 4}, func(n *jobverbs.NewJob) { n.Priority, n.MaxRuntime = 5, int64(10*time.Minute) })
	made = preempt.ForPriority(s.machine.View(), []work.ClassKey{s.get(short).Class()}, s.now.UnixNano())
	require.Len(t, made, 1, "it is over by then")
	higher := s.submit(work.Shape{GPUs: 4}, 6)
	made = preempt.ForPriority(s.machine.View(), []work.ClassKey{s.get(higher).Class()}, s.now.UnixNano())
	require.Len(t, made, 1)
	require.Positive(t, victims(), "the promised job itself gets its own places")
}
