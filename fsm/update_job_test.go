package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// update changes some fields of a job, and checks that the state holds.
func (w *world) update(id ident.Job, set jobverbs.Fields, change func(*jobverbs.NewJob)) (*work.Job, reason.Code) {
	to := oneGPU()
	to.Spec = []byte("another spec")
	change(&to)
	was := uint64(0)
	if j, ok := w.m.View().Find(id); ok {
		was = jobverbs.SpecDigest(j.Spec)
	}
	before := w.m.View().Hash()
	r := do[jobverbs.ControlResult](w, jobverbs.UpdateJob{Tenant: "acme", Job: id, Was: was, Set: set, To: to})
	if r.Refusal != nil {
		require.Equal(w.t, before, w.m.View().Hash(), "a refusal changes nothing")
		return nil, r.Refusal.Reason.Code()
	}
	require.Empty(w.t, fsm.Check(w.publish()))
	return r.Job, 0
}

func TestUpdateJob_changesOneThatWaits(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "large", Weight: 1}})
	id := w.submit(oneGPU())
	all := jobverbs.SetName | jobverbs.SetLabels | jobverbs.SetPriority | jobverbs.SetLimit | jobverbs.SetRetry | jobverbs.SetPreemptible | jobverbs.SetQueue |
		jobverbs.SetShape | jobverbs.SetNotBefore
	j, refused := w.update(id, all, func(n *jobverbs.NewJob) {
		n.Name, n.Labels, n.Priority, n.Queue, n.Preemptible = "other", map[string]string{"a": "b"}, 9, "large", true
		n.Shape, n.Retry = work.Shape{Nodes: 1, GPUs: 3}, work.RetryPolicy{Max: 7}
		n.MaxRuntime, n.NotBefore = int64(time.Hour), w.now+int64(time.Minute)
	})
	require.Zero(t, refused)
	require.Equal(t, "another spec", string(j.Spec))
	require.Equal(t, "other", j.Name)
	require.Equal(t, map[string]string{"a": "b"}, j.Labels)
	require.EqualValues(t, 9, j.Priority)
	require.Equal(t, "large", j.Queue)
	require.True(t, j.Preemptible)
	require.EqualValues(t, 3, j.Shape.GPUs)
	require.EqualValues(t, 7, j.Retry.Max)
	require.Equal(t, int64(time.Hour), j.MaxRuntime)
	require.Positive(t, j.Notice)
	require.Equal(t, work.HoldNotBefore, j.Held)

	j, _ = w.update(id, jobverbs.SetNotBefore|jobverbs.SetLimit, func(n *jobverbs.NewJob) { n.Priority = 1 })
	require.Zero(t, j.Held)
	require.Zero(t, j.MaxRuntime)
	require.Zero(t, j.Notice)
	require.EqualValues(t, 9, j.Priority, "what is not in the set stays")
	w.place(id, "n1")
	require.Len(t, w.job(id).Tasks, 1)
}

func TestUpdateJob_refusals(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	running, waiting, array := w.submit(oneGPU()), w.submit(oneGPU()), w.submit(inArray(0, 3, 0))
	w.place(running, "n1")
	w.run(running)
	as := func(c jobverbs.UpdateJob) reason.Code {
		r := do[jobverbs.ControlResult](w, c)
		require.NotNil(t, r.Refusal)
		return r.Refusal.Reason.Code()
	}
	none := func(*jobverbs.NewJob) {}
	refused := func(id ident.Job, set jobverbs.Fields, change func(*jobverbs.NewJob)) reason.Code {
		_, why := w.update(id, set, change)
		return why
	}
	require.Equal(t, reason.NoJob, as(jobverbs.UpdateJob{Tenant: "acme", Job: 1}))
	require.Equal(t, reason.NoJob, as(jobverbs.UpdateJob{Tenant: "umbrella", Job: waiting}))
	require.Equal(t, reason.JobChanged, as(jobverbs.UpdateJob{Tenant: "acme", Job: waiting, Was: 1}))
	require.Equal(t, reason.UpdateElement, refused(array.At(2), jobverbs.SetPriority, none))
	require.Equal(t, reason.NoQueueForJob, refused(waiting, jobverbs.SetQueue, func(n *jobverbs.NewJob) { n.Queue = "nowhere" }))
	require.Equal(t, reason.NoQueueForJob, refused(array, jobverbs.SetQueue, func(n *jobverbs.NewJob) { n.Queue = "nowhere" }))
	require.Equal(t, reason.PriorityOutOfRange, refused(waiting, jobverbs.SetPriority, func(n *jobverbs.NewJob) { n.Priority = 11 }))
	require.Equal(t, reason.TooManyGPUs, refused(waiting, jobverbs.SetShape, func(n *jobverbs.NewJob) { n.Shape.GPUs = 1 << 12 }))
	require.Equal(t, reason.UnknownRetryCause, refused(waiting, jobverbs.SetRetry, func(n *jobverbs.NewJob) { n.Retry.On = 255 }))
	require.Equal(t, reason.UnknownAction, refused(waiting, 1<<30, none))
	for _, set := range []jobverbs.Fields{jobverbs.SetQueue, jobverbs.SetShape, jobverbs.SetNotBefore} {
		require.Equal(t, reason.UpdateLive, refused(running, set|jobverbs.SetPriority, none))
	}
	w.do(jobverbs.ControlJob{Job: running, Action: work.ActionCancel})
	require.Equal(t, reason.BeingCanceled, refused(running, jobverbs.SetPriority, none))
	w.stops(running)
	require.Equal(t, reason.CannotUpdate, refused(running, jobverbs.SetPriority, none))
}

// A running job may get more time, until it is told that its time is over.
func TestUpdateJob_limitOfOneThatRuns(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	n := oneGPU()
	n.MaxRuntime, n.Notice = int64(time.Hour), int64(time.Minute)
	id := w.submit(n)
	w.place(id, "n1")
	w.run(id)
	started := w.job(id).StartedAt
	j, why := w.update(id, jobverbs.SetLimit|jobverbs.SetPriority, func(n *jobverbs.NewJob) { n.MaxRuntime, n.Priority = int64(3*time.Hour), 8 })
	require.Zero(t, why)
	require.EqualValues(t, 8, j.Priority)
	w.now = started + int64(2*time.Hour)
	w.tick()
	require.Zero(t, w.job(id).Stop)
	w.now = started + int64(3*time.Hour)
	w.tick()
	require.Equal(t, v1.StopReason_TIME_LIMIT, w.job(id).Stop)
	_, why = w.update(id, jobverbs.SetLimit, func(n *jobverbs.NewJob) { n.MaxRuntime = int64(5 * time.Hour) })
	require.Equal(t, reason.AttemptEnding, why)
}

// Places that were promised to a job, or kept for it, are for the resources that it asked for then.
func TestUpdateJob_releasesItsPlaces(t *testing.T) {
	w, starts := blocked(t, 1)
	require.Empty(t, w.promise(starts...))
	_, why := w.update(starts[0].Job, jobverbs.SetPriority, func(*jobverbs.NewJob) {})
	require.Zero(t, why)
	require.Equal(t, 1, w.m.View().PromiseCount())
	_, why = w.update(starts[0].Job, jobverbs.SetShape, func(*jobverbs.NewJob) {})
	require.Zero(t, why)
	require.Zero(t, w.m.View().PromiseCount())

	w, id := runningGang(t)
	w.breaksDown(id, 1, v1.ErrorType_NODE_LOST)
	w.hold(id)
	_, why = w.update(id, jobverbs.SetShape, func(n *jobverbs.NewJob) { n.Shape = work.Shape{Nodes: 2, GPUs: 1} })
	require.Zero(t, why)
	w.unheld(id)
}

func TestUpdateJob_ofAnArray(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	id := w.submit(inArray(0, 9, 0))
	w.elements("n1", all(id, 0, 2)...)
	j, why := w.update(id, jobverbs.SetPriority|jobverbs.SetShape, func(n *jobverbs.NewJob) { n.Priority, n.Shape = 9, work.Shape{Nodes: 1, CPUs: 2} })
	require.Zero(t, why)
	require.EqualValues(t, 9, j.Priority)
	running, _ := w.m.View().Find(id.At(0))
	waits, _ := w.m.View().Find(id.At(7))
	require.EqualValues(t, 9, running.Priority)
	require.EqualValues(t, 1, running.Shape.CPUs, "it was placed by its shape")
	require.EqualValues(t, 9, waits.Priority)
	require.EqualValues(t, 2, waits.Shape.CPUs)
	require.Len(t, w.elements("n1", id.At(7)), 1)
}

func TestHold_keepsAJobUntilItIsReleased(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	n := oneGPU()
	n.NotBefore = w.now + int64(time.Minute)
	id := w.submit(n)
	control := func(action work.Action) *work.Job {
		r := do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: action, Reason: "the data is not there"})
		require.Nil(t, r.Refusal)
		require.Empty(t, fsm.Check(w.publish()))
		return r.Job
	}
	require.Equal(t, work.HoldNotBefore|work.HoldUser, control(work.ActionHold).Held)
	w.now += int64(time.Hour)
	w.tick()
	require.Equal(t, work.HoldUser, w.job(id).Held)
	require.Equal(t, reason.HeldBecause, w.job(id).Reason.Code())
	require.False(t, w.job(id).Waiting())
	require.Zero(t, control(work.ActionRelease).Held)
	require.Zero(t, control(work.ActionRelease).Held, "once more changes nothing")
	w.place(id, "n1")
	require.Equal(t, reason.CannotHold, w.refused(jobverbs.ControlJob{Job: id, Action: work.ActionHold}))
	w.run(id)
	w.stops(id)
	require.Equal(t, reason.CannotRelease, w.refused(jobverbs.ControlJob{Job: id, Action: work.ActionRelease}))

	held := w.submit(oneGPU())
	id = held
	control(work.ActionHold)
	control(work.ActionPause)
	require.Zero(t, control(work.ActionResume).Held, "a user who resumes it wants it to run")
}

func TestHold_ofAnArray(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	id := w.submit(inArray(0, 3, 0))
	w.elements("n1", id.At(0))
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionHold})
	require.Empty(t, fsm.Check(w.publish()))
	require.Empty(t, w.elements("n1", id.At(1)))
	w.ends("n1", zero, id.At(0))
	require.Equal(t, v1.JobState_RUNNING, w.job(id).State)
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionRelease})
	require.Len(t, w.elements("n1", all(id, 1, 3)...), 3)
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionHold})
	w.ends("n1", zero, all(id, 1, 3)...)
	require.Equal(t, v1.JobState_SUCCEEDED, w.job(id).State)
	require.Empty(t, fsm.Check(w.publish()))
}

// A job that is resumed while it is being paused goes on when its attempt has stopped.
func TestResume_whileItIsBeingPaused(t *testing.T) {
	w, id := aRunningJob(t)
	control := func(action work.Action) {
		r := do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: action, SaveCheckpoint: true})
		require.Nil(t, r.Refusal)
		require.Empty(t, fsm.Check(w.publish()))
	}
	control(work.ActionPause)
	control(work.ActionResume)
	require.Equal(t, v1.StopReason_PAUSE, w.job(id).Stop)
	control(work.ActionResume)
	w.stops(id)
	require.Equal(t, v1.JobState_QUEUED, w.job(id).State)
	w.place(id, "n1")
	w.run(id)

	control(work.ActionPause)
	control(work.ActionResume)
	control(work.ActionPause)
	w.stops(id)
	require.Equal(t, v1.JobState_PAUSED, w.job(id).State, "the last word counts")

	control(work.ActionResume)
	w.place(id, "n1")
	w.run(id)
	control(work.ActionPause)
	control(work.ActionResume)
	control(work.ActionCancel)
	w.stops(id)
	require.Equal(t, v1.JobState_CANCELED, w.job(id).State)
}

// Below its level the state does what it did before.
func TestResume_whileItIsBeingPausedByAnOldLog(t *testing.T) {
	w := newWorld(t)
	w.at = level.Base
	w.node("n1", 1)
	id := w.submit(oneGPU())
	w.place(id, "n1")
	w.run(id)
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionPause})
	require.Equal(t, reason.CannotResume, w.refused(jobverbs.ControlJob{Job: id, Action: work.ActionResume}))
}

// The places that were kept for an element are for the shape that it had.
func TestUpdateJob_releasesThePlacesOfElements(t *testing.T) {
	w := cluster(t)
	n := retried(gang(2), 3)
	n.Array = &jobverbs.NewArray{Start: 0, End: 1}
	array := w.submit(n)
	e := array.At(0)
	w.place(e, "n1", "n2")
	w.run(e)
	w.breaksDown(e, 0, v1.ErrorType_NODE_LOST)
	w.hold(e)
	_, why := w.update(array, jobverbs.SetShape, func(n *jobverbs.NewJob) { n.Shape = work.Shape{Nodes: 1, GPUs: 1} })
	require.Zero(t, why)
	w.unheld(e)
}

func TestUpdateJob_aLimitEndsAPromise(t *testing.T) {
	w, starts := blocked(t, 1)
	require.Empty(t, w.promise(starts...))
	_, why := w.update(starts[0].Job, jobverbs.SetLimit, func(n *jobverbs.NewJob) { n.MaxRuntime = int64(48 * time.Hour) })
	require.Zero(t, why)
	require.Zero(t, w.m.View().PromiseCount())
}

// A running job keeps the end that others count on, and does not get a limit that has passed.
func TestUpdateJob_limitOthersCountOn(t *testing.T) {
	w, starts := blocked(t, 1)
	require.Empty(t, w.promise(starts...))
	var running ident.Job
	for j := range w.m.View().Jobs(false, 0) {
		if j.Live() {
			running = j.ID
		}
	}
	w.run(running)
	longer := func(n *jobverbs.NewJob) { n.MaxRuntime = int64(5 * time.Hour) }
	_, why := w.update(running, jobverbs.SetLimit, longer)
	require.Equal(t, reason.PlacesPromised, why)
	_, why = w.update(running, jobverbs.SetLimit, func(n *jobverbs.NewJob) { n.MaxRuntime = int64(2 * time.Hour) })
	require.Equal(t, reason.PlacesPromised, why, "it needs time to end")
	_, why = w.update(running, jobverbs.SetLimit, func(n *jobverbs.NewJob) { n.MaxRuntime = int64(90 * time.Minute) })
	require.Zero(t, why, "it is gone before the other one starts")
	w.later(80 * time.Minute)
	w.tick()
	_, why = w.update(running, jobverbs.SetLimit, func(n *jobverbs.NewJob) { n.MaxRuntime = int64(time.Hour) })
	require.Equal(t, reason.LimitPassed, why)
}

func TestUpdateJob_arraysThatHaveBegun(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "large", Weight: 1}})
	id := w.submit(inArray(0, 5, 0))
	_, why := w.update(id, jobverbs.SetQueue|jobverbs.SetNotBefore, func(n *jobverbs.NewJob) { n.Queue = "large" })
	require.Zero(t, why)
	w.elements("n1", id.At(0))
	for _, set := range []jobverbs.Fields{jobverbs.SetQueue, jobverbs.SetNotBefore} {
		_, why = w.update(id, set, func(n *jobverbs.NewJob) { n.Queue = "large" })
		require.Equal(t, reason.UpdateBegunArray, why)
	}
	before := w.job(id.At(0)).Spec
	_, why = w.update(id, jobverbs.SetShape, func(n *jobverbs.NewJob) { n.Shape = work.Shape{Nodes: 1, CPUs: 2} })
	require.Zero(t, why)
	require.Equal(t, before, w.job(id.At(0)).Spec, "the request of an element goes with its shape")
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionHold})
	w.ends("n1", func(ident.Job) int32 { return 7 }, id.At(0))
	require.Empty(t, fsm.Check(w.publish()))
}

// An element of a held array that is to run again is held, too.
func TestHold_ofElementsThatAreTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.bigNode("n1")
	n := inArray(0, 1, 0)
	n.Retry = work.RetryPolicy{Max: 1, On: work.RetryAll}
	id := w.submit(n)
	w.elements("n1", all(id, 0, 1)...)
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionHold})
	w.ends("n1", func(ident.Job) int32 { return 1 }, id.At(0))
	require.Equal(t, work.HoldUser, w.job(id.At(0)).Held&work.HoldUser)
	require.Equal(t, reason.ResumeHeld, w.refused(jobverbs.ControlJob{Job: id.At(0), Action: work.ActionResume}))
	require.Equal(t, reason.ResumeHeld, w.refused(jobverbs.ControlJob{Job: id, Action: work.ActionResume}))
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionRelease})
	require.Zero(t, w.job(id.At(0)).Held)
	require.Empty(t, fsm.Check(w.publish()))
}

func TestUpdateJob_labelsThatStay(t *testing.T) {
	w := newWorld(t)
	n := oneGPU()
	n.Labels = map[string]string{work.ScheduleLabel: "nightly"}
	scheduled, plain := w.submit(n), w.submit(oneGPU())
	n.Labels = map[string]string{work.EvaluationLabel: work.EvaluationValue}
	scores := w.submit(n)
	none := func(n *jobverbs.NewJob) { n.Labels = nil }
	for id, change := range map[ident.Job]func(*jobverbs.NewJob){
		scheduled: none, scores: none,
		plain: func(n *jobverbs.NewJob) { n.Labels = map[string]string{work.EvaluationLabel: work.EvaluationValue} },
	} {
		_, why := w.update(id, jobverbs.SetLabels, change)
		require.Equal(t, reason.LabelStays, why)
	}
	_, why := w.update(plain, jobverbs.SetLabels, func(n *jobverbs.NewJob) { n.Labels = map[string]string{work.EvaluationLabel: "other"} })
	require.Zero(t, why)
}

// A job that was placed before a maintenance because of its limit, or because it yields, keeps that.
func TestUpdateJob_limitThatAMaintenanceCountsOn(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	require.Nil(t, w.maintain().Refusal)
	limited, yields := oneGPU(), oneGPU()
	limited.MaxRuntime, yields.Preemptible = int64(30*time.Minute), true
	a, b := w.submit(limited), w.submit(yields)
	w.place(a, "n1")
	w.place(b, "n1")
	w.run(a)
	w.run(b)
	for id, set := range map[ident.Job]jobverbs.Fields{a: jobverbs.SetLimit, b: jobverbs.SetPreemptible} {
		_, why := w.update(id, set, func(n *jobverbs.NewJob) { n.MaxRuntime = int64(100 * time.Hour) })
		require.Equal(t, reason.NodeKept, why, "%s", id)
	}
	_, why := w.update(b, jobverbs.SetRetry, func(n *jobverbs.NewJob) { n.Retry.Never = true })
	require.Equal(t, reason.NodeKept, why)
	_, why = w.update(a, jobverbs.SetLimit, func(n *jobverbs.NewJob) { n.MaxRuntime = int64(31 * time.Minute) })
	require.Zero(t, why)
}
