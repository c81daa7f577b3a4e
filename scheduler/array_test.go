package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/foresee"
)

func (s *state) array(n, parallel uint32) ident.Job {
	s.t.Helper()
	j := s.job(work.Shape{CPUs: 1}, 5)
	j.Array, j.MaxParallel = &jobverbs.NewArray{End: n - 1}, parallel
	j.Retry, j.MaxRuntime = work.RetryPolicy{Max: 1, On: work.RetryAll}, int64(time.Minute)
	r := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}})[0].(jobverbs.SubmitJobsResult)
	require.Nil(s.t, r.Results[0].Refusal)
	return r.Results[0].Job
}

// offered returns the elements that a plan places, in order.
func offered(plan scheduler.Result) (ids []ident.Job) {
	for _, c := range plan.Commands {
		for _, p := range c.Placements {
			ids = append(ids, p.Job)
		}
	}
	return ids
}

// exits ends the tasks of running elements with an exit code.
func (s *state) exits(code int32, ids ...ident.Job) {
	s.t.Helper()
	for _, id := range ids {
		j := s.get(id)
		s.apply(jobverbs.ReportTasks{Node: j.Tasks[0].Node, Reports: []jobverbs.TaskReport{
			{Job: id, Attempt: j.Attempt, Token: j.Token, Kind: jobverbs.ReportRunning},
			{Job: id, Attempt: j.Attempt, Token: j.Token, Kind: jobverbs.ReportEnded, ExitCode: &code},
		}})
	}
}

func TestPlan_offersElementsByNumberAndThoseToRetryAfterThem(t *testing.T) {
	s := newState(t)
	s.node("n1", nil, nil)
	id := s.array(7, 3)
	other := s.submit(work.Shape{CPUs: 1}, 5)
	plan := s.run()
	require.Equal(t, []ident.Job{id.At(0), id.At(1), id.At(2), other}, offered(plan))
	require.Equal(t, reason.MaxParallelReached, s.machine.View().ClassReason(s.machine.View().ClassOf(s.get(id))).Code())
	s.exits(1, id.At(1)) // The element is retried.
	require.Equal(t, []ident.Job{id.At(3)}, offered(s.run()))
	s.exits(0, id.At(0), id.At(2), id.At(3))
	require.Equal(t, []ident.Job{id.At(4), id.At(5), id.At(6)}, offered(s.run()))
	s.exits(0, id.At(4))
	require.Equal(t, []ident.Job{id.At(1)}, offered(s.run()))
}

func TestPlan_elementsOfAnArrayWithoutABoundAreOfItsAge(t *testing.T) {
	s := newState(t)
	s.node("n1", nil, nil)
	before := s.submit(work.Shape{CPUs: 1}, 5)
	id := s.array(3, 0)
	after := s.submit(work.Shape{CPUs: 1}, 5)
	require.Equal(t, []ident.Job{before, id.At(0), id.At(1), id.At(2), after}, offered(s.run()))
	require.Len(t, s.machine.View().CountsOf("t"), 16)
}

func TestForesee_anArrayStartsWithItsFirstElement(t *testing.T) {
	s := newState(t)
	s.node("n1", nil, nil)
	id := s.array(6, 2)
	s.run()
	s.exits(0)
	f := foresee.Starts(s.machine.View(), "t", s.now, foresee.Options{})
	first, ok := f.Start(id)
	require.True(t, ok)
	last, ok := f.Start(id.At(5))
	require.True(t, ok)
	require.Equal(t, s.now.Add(time.Minute).UnixNano()/1e9, first.At/1e9)
	require.Equal(t, s.now.Add(2*time.Minute).UnixNano()/1e9, last.At/1e9)
}

// BenchmarkArray_100kElements plans, places and ends 100,000 elements, 128 at a time: all of the leader's work on them
// except the log.
func BenchmarkArray_100kElements(b *testing.B) {
	const total, part = 100_000, 10_000
	for b.Loop() {
		s := newState(b)
		s.node("n1", nil, nil)
		s.node("n2", nil, nil)
		id := s.array(total, 0)
		start, first, last := time.Now(), time.Duration(0), time.Duration(0)
		for done := 0; done < total; {
			ends := map[string]*jobverbs.ReportTasks{"n1": {Node: "n1"}, "n2": {Node: "n2"}}
			zero := int32(0)
			for _, c := range scheduler.Plan(s.machine.View(), scheduler.Options{}).Commands {
				s.apply(c)
				for _, p := range c.Placements {
					j := s.get(p.Job)
					r := ends[j.Tasks[0].Node]
					r.Reports = append(r.Reports,
						jobverbs.TaskReport{Job: p.Job, Attempt: 1, Token: j.Token, Kind: jobverbs.ReportRunning},
						jobverbs.TaskReport{Job: p.Job, Attempt: 1, Token: j.Token, Kind: jobverbs.ReportEnded, ExitCode: &zero})
					done++
				}
			}
			s.apply(*ends["n1"], *ends["n2"])
			if done >= part && first == 0 {
				first = time.Since(start)
			}
			if done >= total-part && last == 0 {
				last = time.Since(start)
			}
		}
		took := time.Since(start)
		b.ReportMetric(total/took.Seconds(), "elements/s")
		b.ReportMetric(part/first.Seconds(), "first/s")
		b.ReportMetric(part/(took-last).Seconds(), "last/s")
		require.True(b, s.get(id).Terminal())
		require.Empty(b, fsm.Check(s.machine.View()))
	}
}

func TestPreempt_forAnElementThatHasNotRun(t *testing.T) {
	s := newState(t)
	s.node("a", gpus("a", "H100", 1, 1), nil)
	victim := s.preemptible(work.Shape{GPUs: 1}, 1)
	s.run()
	s.start(victim)
	s.now = s.now.Add(3 * time.Hour)
	urgent := s.job(work.Shape{GPUs: 1}, 9)
	urgent.Array = &jobverbs.NewArray{End: 2}
	r := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{urgent}})[0].(jobverbs.SubmitJobsResult)
	require.Nil(t, r.Results[0].Refusal)
	array := r.Results[0].Job

	made := s.preempt()
	require.Len(t, made, 1)
	require.Equal(t, array.At(0), made[0].Job)
	require.Empty(t, fsm.Check(s.machine.View()))
	s.leave(victim)
	require.True(t, s.get(array.At(0)).Live(), "the entry that releases the place grants it")
	require.Empty(t, fsm.Check(s.machine.View()))
	s.exits(0, array.At(0))
	require.Equal(t, []ident.Job{array.At(1)}, offered(s.run()))
}
