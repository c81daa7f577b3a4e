package fsm_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// inArray is an array of jobs that need no GPU.
func inArray(start, end, parallel uint32) jobverbs.NewJob {
	n := oneGPU()
	n.Shape = work.Shape{Nodes: 1, CPUs: 1}
	n.Array, n.MaxParallel = &jobverbs.NewArray{Start: start, End: end}, parallel
	return n
}

// state is that of an element, with a row or without.
func (w *world) state(id ident.Job) v1.JobState_Value {
	j, ok := w.m.View().Find(id)
	require.True(w.t, ok, "%s", id)
	return j.State
}

// bigNode has room for many elements.
func (w *world) bigNode(id string) {
	n := testNode(id, "boot1", 0)
	n.CPUs = 100_000
	require.Nil(w.t, do[nodeverbs.NodeResult](w, nodeverbs.RegisterNode{Node: n}).Refusal)
}

// elements places elements of an array in one command, and returns those that were.
func (w *world) elements(node string, ids ...ident.Job) []ident.Job {
	var p jobverbs.PlaceJobs
	for _, id := range ids {
		p.Placements = append(p.Placements, w.placement(id, node))
	}
	var placed []ident.Job
	for _, one := range do[jobverbs.PlaceResult](w, p).Placed {
		placed = append(placed, one.Job)
	}
	return placed
}

// ends reports the ends of elements in one command.
func (w *world) ends(node string, code func(ident.Job) int32, ids ...ident.Job) {
	r := jobverbs.ReportTasks{Node: node}
	for _, id := range ids {
		j, exit := w.job(id), code(id)
		for _, kind := range []jobverbs.ReportKind{jobverbs.ReportStarting, jobverbs.ReportRunning, jobverbs.ReportEnded} {
			one := jobverbs.TaskReport{Job: id, Attempt: j.Attempt, Token: j.Token, Kind: kind, Time: w.now}
			if kind == jobverbs.ReportEnded {
				one.ExitCode = &exit
			}
			r.Reports = append(r.Reports, one)
		}
	}
	w.do(r)
}

func all(array ident.Job, from, to uint32) []ident.Job {
	var ids []ident.Job
	for n := from; n <= to; n++ {
		ids = append(ids, array.At(n))
	}
	return ids
}

func zero(ident.Job) int32 { return 0 }

func TestArray_isOneSmallRow(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	before := len(snapshotBytes(t, w.m))
	id := w.submit(inArray(0, 99_999, 500))
	require.Equal(t, v1.JobState_QUEUED, w.job(id).State)
	require.Less(t, len(snapshotBytes(t, w.m))-before, 400, "bytes of the state")
	require.Equal(t, 100_000, w.m.View().CountsOf("acme").Of(v1.JobState_QUEUED))
	require.Equal(t, 41_234, w.m.View().Ahead(find(t, w.m.View(), id.At(41_234))))
	after := w.submit(inArray(1, 2, 0))
	require.Equal(t, 100_001, w.m.View().Ahead(find(t, w.m.View(), after.At(2))))
}

func find(t require.TestingT, v *fsm.View, id ident.Job) *work.Job {
	j, ok := v.Find(id)
	require.True(t, ok)
	return j
}

func TestArray_runsNoMoreThanMayAndFoldsWhatIsOver(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	id := w.submit(inArray(10, 1509, 300))
	require.Len(t, w.elements("n1", all(id, 10, 400)...), 300)
	require.Equal(t, v1.JobState_RUNNING, w.job(id).State)
	require.Zero(t, w.job(id).Attempt)
	require.False(t, w.job(id).Live())
	for from := uint32(10); from <= 1509; from += 300 {
		w.later(time.Second)
		w.elements("n1", all(id, from, from+299)...)
		w.ends("n1", zero, all(id, from, from+299)...)
	}
	row := w.job(id)
	require.Equal(t, v1.JobState_SUCCEEDED, row.State)
	require.EqualValues(t, 0, *row.ExitCode)
	require.EqualValues(t, work.KeptOtherElements, row.Array.Rows.Succeeded)
	require.Equal(t, 1500-work.KeptOtherElements, row.Array.Succeeded.Len())
	require.LessOrEqual(t, len(row.Array.Succeeded), 1)
	require.Equal(t, 1500, w.m.View().CountsOf("acme").Of(v1.JobState_SUCCEEDED))
	require.Equal(t, v1.JobState_SUCCEEDED, w.state(id.At(10)))
	_, ok := w.m.View().Job(id.At(10))
	require.False(t, ok, "its row is gone")
	_, ok = w.m.View().Find(id.At(9))
	require.False(t, ok)
}

func TestArray_failsWithTheHighestCodeAndIsRetried(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	id := w.submit(inArray(0, 2999, 0))
	w.elements("n1", all(id, 0, 2999)...)
	w.ends("n1", func(e ident.Job) int32 {
		_, n, _ := e.Element()
		return int32(n % 3)
	}, all(id, 0, 2999)...)
	row := w.job(id)
	require.Equal(t, v1.JobState_FAILED, row.State)
	require.EqualValues(t, 2, *row.ExitCode)
	require.Equal(t, reason.New(reason.ElementsFailed, 2000, 3000), row.ErrorMessage)
	require.Equal(t, 1000, row.Array.GoneFailed())
	require.EqualValues(t, 1, *find(t, w.m.View(), id.At(1)).ExitCode, "the code of an element without a row is still known")

	require.Equal(t, reason.CannotHold, w.refused(jobverbs.ControlJob{Job: id.At(0), Action: work.ActionHold}))
	require.Equal(t, reason.CannotRelease, w.refused(jobverbs.ControlJob{Job: id.At(0), Action: work.ActionRelease}))
	require.Equal(t, reason.RetrySucceeded, w.refused(jobverbs.ControlJob{Job: id.At(0), Action: work.ActionRetry}))
	do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionRetry})
	row = w.job(id)
	require.Equal(t, v1.JobState_QUEUED, row.State)
	require.Equal(t, 2000, row.Array.Unfinished())
	again := w.elements("n1", id.At(1), id.At(2998))
	require.Len(t, again, 2)
	require.EqualValues(t, 2, w.job(id.At(1)).Attempt, "an attempt number is never used twice")
	require.EqualValues(t, 2, w.job(id.At(2998)).Attempt)
}

func (w *world) refused(c jobverbs.ControlJob) reason.Code {
	before := w.m.View().Hash()
	r := do[jobverbs.ControlResult](w, c).Refusal
	require.NotNil(w.t, r)
	require.Equal(w.t, before, w.m.View().Hash(), "a refusal changes nothing")
	return r.Reason.Code()
}

func TestArray_isPausedResumedAndCanceled(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	id := w.submit(inArray(0, 9, 0))
	w.elements("n1", all(id, 0, 3)...)
	w.ends("n1", zero, id.At(0))
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionPause, SaveCheckpoint: true})
	require.Equal(t, v1.JobState_PAUSED, w.job(id).State)
	require.Equal(t, v1.StopReason_PAUSE, w.job(id.At(1)).Stop)
	require.Equal(t, v1.JobState_PAUSED, w.state(id.At(7)))
	require.Empty(t, slices.Collect(w.m.View().Classes()))
	require.Equal(t, reason.ElementNotStarted, w.refused(jobverbs.ControlJob{Job: id.At(7), Action: work.ActionPause}))
	w.ends("n1", zero, all(id, 1, 3)...)
	require.Equal(t, v1.JobState_PAUSED, w.state(id.At(1)))
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionResume})
	require.Equal(t, v1.JobState_RUNNING, w.job(id).State)
	require.Equal(t, v1.JobState_QUEUED, w.state(id.At(1)))
	require.Len(t, w.elements("n1", id.At(1), id.At(4)), 2)

	w.do(jobverbs.ControlJob{Job: id.At(9), Action: work.ActionCancel})
	require.Equal(t, v1.JobState_CANCELED, w.state(id.At(9)))
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
	require.Equal(t, v1.JobState_RUNNING, w.job(id).State, "two elements stop")
	require.Equal(t, v1.JobState_CANCELED, w.state(id.At(2)))
	w.ends("n1", zero, id.At(1), id.At(4))
	require.Equal(t, v1.JobState_CANCELED, w.job(id).State)
	require.Equal(t, v1.JobState_SUCCEEDED, w.state(id.At(0)))
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionRetry})
	require.Equal(t, 9, w.job(id).Array.Unfinished())
}

// An array that is resumed while its elements stop goes on, those elements too.
func TestArray_isResumedWhileItIsBeingPaused(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	id := w.submit(inArray(0, 9, 0))
	w.elements("n1", all(id, 0, 3)...)
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionPause, SaveCheckpoint: true})
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionResume})
	require.Equal(t, v1.JobState_RUNNING, w.job(id).State)
	w.ends("n1", zero, all(id, 0, 3)...)
	require.Equal(t, v1.JobState_QUEUED, w.state(id.At(0)))
	require.Len(t, w.elements("n1", id.At(0), id.At(5)), 2)
}

func TestArray_countsAgainstQuotas(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	jobs, running := int32(20), int32(3)
	w.do(queueverbs.PutQuota{Tenant: "acme", MaxJobs: &jobs, MaxRunning: &running})
	r := do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{inArray(0, 20, 0), inArray(0, 19, 0), oneGPU()}}).Results
	require.Equal(t, reason.QuotaOfJobs, r[0].Refusal.Reason.Code())
	require.Nil(t, r[1].Refusal)
	require.Equal(t, reason.QuotaOfJobs, r[2].Refusal.Reason.Code())
	require.Len(t, w.elements("n1", all(r[1].Job, 0, 9)...), 3)
	w.ends("n1", zero, all(r[1].Job, 0, 2)...)
	require.Equal(t, 17, w.m.View().Usage("acme").Unfinished)
}

func TestArray_othersWaitForItAndForItsElements(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	id := w.submit(inArray(0, 3, 0))
	after := func(on ident.Job, when work.Condition) ident.Job {
		n := inArray(0, 1, 0)
		n.Dependencies = []work.Dependency{{Job: on, When: when}}
		return w.submit(n)
	}
	ok, fail, anyway := after(id, work.AfterOK), after(id, work.AfterFail), after(id, work.AfterAny)
	first, last, never := after(id.At(0), work.AfterOK), after(id.At(3), work.AfterAny), after(id.At(3), work.AfterOK)
	w.elements("n1", all(id, 0, 2)...)
	w.ends("n1", zero, id.At(0))
	require.Zero(t, w.job(first).Held)
	w.do(jobverbs.ControlJob{Job: id.At(3), Action: work.ActionCancel})
	require.Zero(t, w.job(last).Held)
	require.Equal(t, v1.JobState_CANCELED, w.job(never).State)
	require.Equal(t, v1.JobState_CANCELED, w.state(never.At(1)))
	w.ends("n1", func(ident.Job) int32 { return 3 }, all(id, 1, 2)...)
	require.Equal(t, v1.JobState_FAILED, w.job(id).State)
	require.Equal(t, v1.JobState_CANCELED, w.job(ok).State)
	require.Zero(t, w.job(fail).Held)
	require.Zero(t, w.job(anyway).Held)
}

// arrayModel computes how each element must end.
type arrayModel struct {
	state    map[ident.Job]v1.JobState_Value
	attempts map[ident.Job]uint32
}

// TestArray_losesNothingAndRunsNothingTwice drives one array with random commands and holds it to a model that has each
// element by itself: each has the state that its own story gave it, and no attempt of it has a number twice.
func TestArray_losesNothingAndRunsNothingTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{T: t, w: newWorld(t)}
		w := g.w
		w.bigNode("n1")
		size, parallel := uint32(g.n("size", 1, 260)), uint32(g.n("parallel", 0, 200))
		n := inArray(5, 4+size, parallel)
		n.Retry = work.RetryPolicy{Max: 1, On: work.RetryAll}
		id := w.submit(n)
		m := arrayModel{map[ident.Job]v1.JobState_Value{}, map[ident.Job]uint32{}}
		retries := map[ident.Job]int{}
		goesOn := map[ident.Job]bool{} // was resumed while it stopped for a pause
		for _, e := range all(id, 5, 4+size) {
			m.state[e] = v1.JobState_QUEUED
		}
		live := func() (ids []ident.Job) {
			for _, e := range all(id, 5, 4+size) {
				if m.state[e] == v1.JobState_ALLOCATED {
					ids = append(ids, e)
				}
			}
			return ids
		}
		for range g.n("steps", 1, 30) {
			w.later(time.Minute)
			w.do(clusterverbs.Tick{Settled: true})
			e := id.At(uint32(g.n("element", 5, int(4+size))))
			switch g.n("what", 0, 8) {
			case 0, 1, 2, 3:
				row := w.job(id)
				var offer []ident.Job
				for _, e := range all(id, 5, 4+size) {
					if m.state[e] == v1.JobState_QUEUED && len(offer) < 120 && find(t, w.m.View(), e).Held == 0 {
						offer = append(offer, e)
					}
				}
				placed := w.elements("n1", append(offer, live()...)...)
				if row.State == v1.JobState_PAUSED || row.Stop != 0 {
					require.Empty(t, placed)
				} else if parallel == 0 {
					require.Equal(t, offer, placed)
				} else {
					require.Len(t, placed, min(len(offer), int(parallel)-len(live())))
				}
				for _, e := range placed {
					attempt := w.job(e).Attempt
					require.Greater(t, attempt, m.attempts[e], "an attempt of %s has run before", e)
					m.state[e], m.attempts[e] = v1.JobState_ALLOCATED, attempt
				}
			case 4, 5:
				ends := live()
				ends = ends[:g.n("ends", 0, len(ends))]
				code := int32(pick(g, "code", 0, 0, 0, 1, 7))
				stops := map[ident.Job]v1.StopReason_Value{}
				for _, e := range ends {
					stops[e] = w.job(e).Stop
				}
				if len(ends) > 0 {
					w.ends("n1", func(ident.Job) int32 { return code }, ends...)
				}
				for _, e := range ends {
					switch {
					case stops[e] == v1.StopReason_CANCEL:
						m.state[e] = v1.JobState_CANCELED
					case stops[e] == v1.StopReason_PAUSE && goesOn[e]:
						m.state[e] = v1.JobState_QUEUED
					case stops[e] == v1.StopReason_PAUSE:
						m.state[e] = v1.JobState_PAUSED
					case code == 0:
						m.state[e] = v1.JobState_SUCCEEDED
					case retries[e] == 0:
						retries[e]++
						m.state[e] = v1.JobState_QUEUED
					default:
						m.state[e] = v1.JobState_FAILED
					}
				}
			case 6:
				if do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: e, Action: work.ActionCancel}).Refusal == nil && m.state[e] != v1.JobState_ALLOCATED {
					m.state[e] = v1.JobState_CANCELED
				}
			case 7:
				canceled := w.job(id).State == v1.JobState_CANCELED
				target := pick(g, "retry", e, id)
				if do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: target, Action: work.ActionRetry}).Refusal == nil {
					for _, one := range all(id, 5, 4+size) {
						over := m.state[one] == v1.JobState_FAILED || m.state[one] == v1.JobState_CANCELED && (canceled || target == one)
						if over && (target == id || target == one) {
							m.state[one], retries[one] = v1.JobState_QUEUED, 0
						}
					}
				}
			case 8:
				action := pick(g, "action", work.ActionPause, work.ActionResume, work.ActionResume, work.ActionCancel)
				if do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: action}).Refusal != nil {
					break
				}
				for _, one := range all(id, 5, 4+size) {
					switch was := m.state[one]; {
					case was == v1.JobState_ALLOCATED && action != work.ActionCancel:
						goesOn[one] = action == work.ActionResume
					case action == work.ActionPause && was == v1.JobState_QUEUED:
						m.state[one] = v1.JobState_PAUSED
					case action == work.ActionResume && was == v1.JobState_PAUSED && w.job(id).State != v1.JobState_PAUSED:
						m.state[one] = v1.JobState_QUEUED
					case action == work.ActionCancel && (was == v1.JobState_QUEUED || was == v1.JobState_PAUSED):
						m.state[one] = v1.JobState_CANCELED
					}
				}
			}
			holdsArray(t, w.m.View(), id, &m, parallel)
		}
	})
}

func holdsArray(t *rapid.T, v *fsm.View, id ident.Job, m *arrayModel, parallel uint32) {
	counts := map[v1.JobState_Value]int{}
	live := uint32(0)
	for e, want := range m.state {
		j := find(t, v, e)
		got := j.State
		if j.Live() {
			live++
			got = v1.JobState_ALLOCATED
		}
		require.Equal(t, want, got, "%s", e)
		counts[want]++
	}
	require.True(t, parallel == 0 || live <= parallel)
	row := find(t, v, id)
	over := counts[v1.JobState_QUEUED]+counts[v1.JobState_ALLOCATED]+counts[v1.JobState_PAUSED] == 0
	require.Equal(t, over, row.Terminal(), "%s: %v", row.State, counts)
	if row.State == v1.JobState_SUCCEEDED {
		require.Equal(t, len(m.state), counts[v1.JobState_SUCCEEDED])
	}
	have := v.CountsOf("acme")
	for _, s := range []v1.JobState_Value{v1.JobState_QUEUED, v1.JobState_PAUSED, v1.JobState_SUCCEEDED, v1.JobState_FAILED, v1.JobState_CANCELED} {
		require.Equal(t, counts[s], have.Of(s), "%s", s)
	}
}

func TestArray_idsOfManyInOneEntry(t *testing.T) {
	w := newWorld(t)
	c := jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{inArray(0, 1, 0), oneGPU(), inArray(0, 1, 0), inArray(0, 1, 0)}}
	seen := map[ident.Job]bool{}
	for range 3 {
		for _, res := range w.do(c, c) {
			for _, r := range res.(jobverbs.SubmitJobsResult).Results {
				require.Nil(t, r.Refusal)
				require.False(t, seen[r.Job])
				seen[r.Job] = true
				again, ok := ident.ParseJob(r.Job.String())
				require.True(t, ok)
				require.Equal(t, r.Job, again)
			}
		}
	}
	bad := inArray(4, 3, 0)
	r := do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{bad}}).Results[0]
	require.Equal(t, kernel.CodeInvalidArgument, r.Refusal.Code)
}

func TestArray_listsItsElements(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	id := w.submit(inArray(3, 8, 0))
	w.elements("n1", all(id, 3, 5)...)
	w.ends("n1", func(e ident.Job) int32 {
		if e == id.At(4) {
			return 9
		}
		return 0
	}, all(id, 3, 4)...)
	w.do(jobverbs.ControlJob{Job: id.At(8), Action: work.ActionCancel})
	w.do(clusterverbs.Configure{KeepFinished: 1})
	w.do(clusterverbs.Tick{Settled: true})
	var states []v1.JobState_Value
	withRow := 0
	for e := range w.m.View().ElementStates(w.job(id)) {
		require.EqualValues(t, 3+len(states), e.Number)
		states = append(states, e.State)
		if e.Row != nil {
			withRow++
		}
		if e.Number == 4 {
			require.EqualValues(t, 9, *e.ExitCode)
		}
	}
	require.Equal(t, []v1.JobState_Value{
		v1.JobState_SUCCEEDED, v1.JobState_FAILED, v1.JobState_ALLOCATED, v1.JobState_QUEUED, v1.JobState_QUEUED, v1.JobState_CANCELED,
	}, states)
	require.Equal(t, 2, withRow, "one that runs, and one that is kept")
}
