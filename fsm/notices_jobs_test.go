package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/notices"
)

// telling has a URL told of a job.
func telling(n jobverbs.NewJob, on notices.Set) jobverbs.NewJob {
	n.Notices = &notices.Wanted{URL: "https://hooks.example/1", On: on}
	return n
}

// owed are the events that the URL of a job was not told.
func (w *world) owed(id ident.Job) (events []string) {
	for _, n := range w.job(id).Notices.Untold {
		events = append(events, n.Event.String())
	}
	return events
}

// owing are the jobs with notices that were not told.
func (w *world) owing() (ids []ident.Job) {
	for tenant := range w.m.View().UntoldJobTenants("") {
		for id := range w.m.View().UntoldJobsOf(tenant, 0) {
			require.Equal(w.t, tenant, w.job(id).Tenant)
			ids = append(ids, id)
		}
	}
	require.Len(w.t, ids, w.m.View().UntoldJobCount())
	return ids
}

// tell notes that the first notice of a job was told, or why not.
func (w *world) tell(id ident.Job, over bool, err string) int {
	n := executionverbs.Note{Job: id, Number: w.job(id).Notices.Untold[0].Number, Over: over, Err: err}
	return do[executionverbs.NotesResult](w, executionverbs.NoteNotices{Notes: []executionverbs.Note{n}}).Noted
}

func TestJobNotices_startsAndEndsOnce(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	silent := w.submit(oneGPU())
	n := telling(oneGPU(), notices.Default)
	n.Retry = work.RetryPolicy{Max: 1, On: work.RetryAll}
	id := w.submit(n)
	require.Empty(t, w.owing())
	w.place(id, "n1")
	w.run(id)
	require.Equal(t, []string{"started"}, w.owed(id))
	w.fail(id, v1.ErrorType_OOM) // another attempt follows
	w.later(time.Hour)
	w.tick()
	w.place(id, "n1")
	w.run(id)
	require.Equal(t, []string{"started"}, w.owed(id), "it started once, whichever attempt")
	require.Equal(t, []ident.Job{id}, w.owing())
	require.Equal(t, 1, w.tell(id, false, "it answered 500"))
	require.Equal(t, "it answered 500", w.job(id).Notices.Err)
	require.Equal(t, 1, w.tell(id, true, ""))
	require.Empty(t, w.owing())
	require.Empty(t, w.job(id).Notices.Err)
	require.Equal(t, w.now, w.job(id).Notices.ToldAt)
	require.Equal(t, 0, do[executionverbs.NotesResult](w, executionverbs.NoteNotices{Notes: []executionverbs.Note{{Job: id, Number: 1, Over: true}, {Job: silent, Number: 1, Over: true}, {Job: 99}}}).Noted)
	w.fail(id, v1.ErrorType_OOM)
	require.Equal(t, []string{"failed"}, w.owed(id))
	w.tell(id, true, "given up: it answered 410 Gone")
	require.Empty(t, w.owing())

	// A retry by a user begins again.
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Tenant: "acme", Action: work.ActionRetry}).Refusal)
	w.place(id, "n1")
	w.run(id)
	w.report(id, 0, jobverbs.ReportEnded, exit(0))
	require.Equal(t, []string{"started", "ended"}, w.owed(id))
	require.Nil(t, w.job(silent).Notices)
	_ = snapshotBytes(t, w.m)
}

// A program of a few milliseconds is reported in one command.
func TestJobNotices_ofAShortJob(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(telling(oneGPU(), notices.Default))
	token := w.place(id, "n1")
	zero := int32(0)
	r := jobverbs.ReportTasks{Node: "n1"}
	for _, kind := range []jobverbs.ReportKind{jobverbs.ReportStarting, jobverbs.ReportRunning, jobverbs.ReportEnded} {
		r.Reports = append(r.Reports, jobverbs.TaskReport{Job: id, Attempt: 1, Token: token, Kind: kind, Time: w.now})
	}
	r.Reports[2].ExitCode = &zero
	w.do(r)
	require.Equal(t, []string{"started", "ended"}, w.owed(id))

	never := w.submit(telling(oneGPU(), notices.Default))
	w.place(never, "n1")
	w.unlaunched(never, v1.ErrorType_CWD_MISSING)
	require.Equal(t, []string{"failed"}, w.owed(never))
}

func TestJobNotices_onlyWhatIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		on   notices.Set
		code int32
		want []string
	}{
		"a failure is an end":             {notices.Set(0).With(notices.Ended), 1, []string{"ended"}},
		"an end is no failure":            {notices.Set(0).With(notices.Failed), 0, nil},
		"a failure is told as one":        {notices.Set(0).With(notices.Failed), 1, []string{"failed"}},
		"its start alone":                 {notices.Set(0).With(notices.Started), 1, []string{"started"}},
		"a failure is not told twice":     {notices.Default, 1, []string{"started", "failed"}},
		"waiting is not told in its time": {notices.Set(0).With(notices.Waiting), 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			id := w.submit(telling(oneGPU(), c.on))
			w.place(id, "n1")
			w.run(id)
			w.report(id, 0, jobverbs.ReportEnded, exit(c.code))
			require.Equal(t, c.want, w.owed(id))
		})
	}
	w := newWorld(t)
	id := w.submit(telling(oneGPU(), 0))
	require.Nil(t, w.job(id).Notices, "nothing is asked for")
}

func TestJobNotices_waitingTooLong(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	n := telling(oneGPU(), notices.Set(0).With(notices.Waiting))
	n.Notices.Wait = int64(10 * time.Minute)
	n.NotBefore, n.Retry.On = w.now+int64(time.Hour), work.RetryAll
	id := w.submit(n)
	w.later(time.Hour)
	w.tick() // Now it begins to wait: before, nobody expects it to start.
	due, ok := w.m.View().NextDue()
	require.True(t, ok)
	require.LessOrEqual(t, due, w.now+int64(10*time.Minute))
	w.later(9 * time.Minute)
	w.tick()
	require.Empty(t, w.owing())
	w.later(time.Minute)
	w.tick()
	require.Equal(t, []string{"waiting"}, w.owed(id))
	w.tell(id, true, "")
	w.later(time.Hour)
	w.tick()
	require.Empty(t, w.owing(), "it is told once while it waits")

	w.place(id, "n1")
	w.run(id)
	w.fail(id, v1.ErrorType_GPU_FAULT)
	w.later(time.Minute)
	w.tick()
	require.True(t, w.job(id).Waiting())
	w.later(10 * time.Minute)
	w.tick()
	require.Equal(t, []string{"waiting"}, w.owed(id), "it waits again")
}

func TestJobNotices_anArrayTellsOfItself(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	array := w.submit(telling(inArray(0, 9, 0), notices.Default))
	require.Len(t, w.elements("n1", all(array, 0, 9)...), 10)
	w.ends("n1", func(ident.Job) int32 { return 0 }, all(array, 0, 3)...)
	require.Equal(t, []string{"started"}, w.owed(array))
	w.ends("n1", func(ident.Job) int32 { return 1 }, array.At(4))
	w.ends("n1", func(ident.Job) int32 { return 1 }, array.At(5))
	require.Equal(t, []string{"started", "failed"}, w.owed(array), "its first failure")
	w.ends("n1", func(ident.Job) int32 { return 0 }, all(array, 6, 9)...)
	require.Equal(t, []string{"started", "failed", "ended"}, w.owed(array))
	require.Equal(t, []ident.Job{array}, w.owing())
}

func TestJobNotices_ofAJobThatNeverRuns(t *testing.T) {
	w := newWorld(t)
	first := w.submit(oneGPU())
	n := telling(oneGPU(), notices.Default)
	n.Dependencies = []work.Dependency{{Job: first}}
	id := w.submit(n)
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: first, Tenant: "acme", Action: work.ActionCancel}).Refusal)
	require.Equal(t, v1.JobState_CANCELED, w.job(id).State)
	require.Equal(t, []string{"ended"}, w.owed(id))
	late := w.submit(n)
	require.Equal(t, []string{"ended"}, w.owed(late))
}

// A finished job stays beyond the bound until its URL was told.
func TestJobNotices_outliveTheBoundOfFinishedJobs(t *testing.T) {
	w := newWorld(t)
	w.do(clusterverbs.Configure{KeepFinished: 1})
	id := w.submit(telling(oneGPU(), notices.Default))
	cancel := func(id ident.Job) {
		require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Tenant: "acme", Action: work.ActionCancel}).Refusal)
	}
	cancel(id)
	for range 3 {
		w.later(time.Minute)
		cancel(w.submit(oneGPU()))
		w.tick()
	}
	require.Equal(t, []string{"ended"}, w.owed(id))
	w.tell(id, true, "")
	w.later(time.Minute)
	cancel(w.submit(oneGPU()))
	w.tick()
	_, there := w.m.View().Job(id)
	require.False(t, there)
	require.Empty(t, w.owing())
}

func TestJobNotices_needTheirLevel(t *testing.T) {
	_, err := kernel.Encode(level.Released, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{oneGPU(), telling(oneGPU(), notices.Default)}})
	require.ErrorContains(t, err, "notices of jobs")
	_, err = kernel.Encode(level.Released, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{oneGPU()}})
	require.NoError(t, err)
}

// tells goes on with the notices of a job: one that was told, one that could not be, and one that waits for its time.
func tells(w *world) {
	id := w.submit(telling(oneGPU(), notices.Default))
	for range 2 {
		w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
		w.tell(id, false, "it answered 500")
		w.do(jobverbs.ControlJob{Job: id, Action: work.ActionRetry})
	}
	w.tell(id, true, "")
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
	w.submit(telling(oneGPU(), notices.Set(0).With(notices.Waiting)))
}
