package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

const (
	queued       = v1.JobState_QUEUED
	allocated    = v1.JobState_ALLOCATED
	starting     = v1.JobState_STARTING
	running      = v1.JobState_RUNNING
	paused       = v1.JobState_PAUSED
	succeeded    = v1.JobState_SUCCEEDED
	failedJob    = v1.JobState_FAILED
	succeededJob = v1.JobState_SUCCEEDED
	canceled     = v1.JobState_CANCELED
	lostJob      = v1.JobState_LOST
)

func gang(nodes uint16) jobverbs.NewJob {
	n := oneGPU()
	n.Shape = work.Shape{Nodes: nodes, GPUs: 2}
	return n
}

func TestJob_fromSubmitToSuccess(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(oneGPU())
	require.True(t, w.m.View().Pending(w.job(id)))
	require.Equal(t, queued, w.job(id).State)

	token := w.place(id, "n1")
	require.Equal(t, w.index, token, "the token is the index of the grant")
	require.Equal(t, allocated, w.job(id).State)
	require.Equal(t, uint64(1), w.m.View().Use("n1").Exclusive)
	require.False(t, w.m.View().Pending(w.job(id)))

	w.report(id, 0, jobverbs.ReportStarting)
	require.Equal(t, starting, w.job(id).State)
	w.later(time.Second)
	w.report(id, 0, jobverbs.ReportRunning)
	require.Equal(t, running, w.job(id).State)
	require.Equal(t, v1.JobPhase_TRAINING, w.job(id).Phase)
	require.Equal(t, w.now, w.job(id).StartedAt)
	w.report(id, 0, jobverbs.ReportPhase, func(r *jobverbs.TaskReport) { r.Phase = v1.JobPhase_EVALUATING })
	require.Equal(t, v1.JobPhase_EVALUATING, w.job(id).Phase)
	w.report(id, 0, jobverbs.ReportEnded, exit(0))

	j := w.job(id)
	require.Equal(t, succeeded, j.State)
	require.EqualValues(t, 0, *j.ExitCode)
	require.Equal(t, w.now, j.FinishedAt)
	require.Zero(t, w.m.View().LeaseCount())
	require.Zero(t, w.m.View().Use("n1"))
}

func TestJob_shortOneReportsAllAtOnce(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(oneGPU())
	w.place(id, "n1")
	j, zero := w.job(id), int32(0)
	batch := jobverbs.ReportTasks{Node: "n1"}
	for _, k := range []jobverbs.ReportKind{jobverbs.ReportStarting, jobverbs.ReportRunning, jobverbs.ReportEnded} {
		r := jobverbs.TaskReport{Job: id, Attempt: 1, Token: j.Token, Kind: k}
		if k == jobverbs.ReportEnded {
			r.ExitCode = &zero
		}
		batch.Reports = append(batch.Reports, r)
	}
	var states []v1.JobState_Value
	w.m.OnApply(func(_ *fsm.View, events []event.Event) {
		for _, e := range events {
			if e.Topic == event.TopicJob {
				states = append(states, e.To)
				require.Equal(t, []string{"n1"}, e.Nodes)
			}
		}
	})
	require.Equal(t, jobverbs.ReportResult{Applied: 3}, do[jobverbs.ReportResult](w, batch))
	require.Equal(t, []v1.JobState_Value{starting, running, succeeded}, states)
	// The agent did not hear the answer, and says it all again.
	require.Equal(t, jobverbs.ReportResult{Duplicate: 3}, do[jobverbs.ReportResult](w, batch))
	require.Equal(t, succeeded, w.job(id).State)
}

func TestJob_endedWithoutHavingRun(t *testing.T) {
	for _, e := range []v1.ErrorType_Value{v1.ErrorType_CWD_MISSING, v1.ErrorType_LAUNCH_FAILED} {
		w := newWorld(t)
		w.node("n1", 8)
		id := w.submit(oneGPU())
		w.place(id, "n1")
		w.report(id, 0, jobverbs.ReportEnded, failed(e, "no such directory"))
		j := w.job(id)
		require.Equal(t, failedJob, j.State)
		require.Equal(t, e, j.ErrorType)
		require.EqualValues(t, "no such directory", j.ErrorMessage)
		require.Nil(t, j.ExitCode)
	}
}

func TestReport_fromStaleHoldersIsRefused(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(oneGPU())
	w.place(id, "n1")
	before := w.job(id)
	good := jobverbs.TaskReport{Job: id, Attempt: 1, Token: before.Token, Kind: jobverbs.ReportRunning}
	tests := map[string]struct {
		node   string
		change func(*jobverbs.TaskReport)
	}{
		"an older token":     {"n1", func(r *jobverbs.TaskReport) { r.Token-- }},
		"a newer token":      {"n1", func(r *jobverbs.TaskReport) { r.Token++ }},
		"another attempt":    {"n1", func(r *jobverbs.TaskReport) { r.Attempt = 2 }},
		"a rank too high":    {"n1", func(r *jobverbs.TaskReport) { r.Rank = 1 }},
		"an unknown job":     {"n1", func(r *jobverbs.TaskReport) { r.Job = 99 }},
		"another node":       {"n2", func(*jobverbs.TaskReport) {}},
		"an unknown node":    {"n9", func(*jobverbs.TaskReport) {}},
		"a stale checkpoint": {"n1", func(r *jobverbs.TaskReport) { r.Kind, r.Token, r.Path = jobverbs.ReportCheckpoint, 1, "/c" }},
	}
	fenced := w.m.View().Fenced()
	for name, c := range tests {
		r := good
		c.change(&r)
		require.Equal(t, jobverbs.ReportResult{Stale: 1}, do[jobverbs.ReportResult](w, jobverbs.ReportTasks{Node: c.node, Reports: []jobverbs.TaskReport{r}}), name)
		fenced++
		require.Equal(t, fenced, w.m.View().Fenced())
		require.Same(t, before, w.job(id), name)
	}
	require.Equal(t, jobverbs.ReportResult{Applied: 1}, do[jobverbs.ReportResult](w, jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{good}}))
}

func TestGang_failsAsOne(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		w.node(n, 8)
	}
	id := w.submit(gang(3))
	w.place(id, "n1", "n2", "n3")
	w.run(id)
	w.report(id, 1, jobverbs.ReportEnded, exit(1), failed(v1.ErrorType_OOM, "out of memory"))
	j := w.job(id)
	require.Equal(t, running, j.State)
	require.Equal(t, v1.StopReason_GANG, j.Stop)
	require.Equal(t, 3, w.m.View().LeaseCount(), "leases end together")
	// Failures that follow from the first one are not the cause.
	w.report(id, 0, jobverbs.ReportEnded, exit(143))
	w.report(id, 2, jobverbs.ReportEnded, exit(137), failed(v1.ErrorType_EXIT_NONZERO, "killed"))
	j = w.job(id)
	require.Equal(t, failedJob, j.State)
	require.Equal(t, v1.ErrorType_OOM, j.ErrorType)
	require.EqualValues(t, 1, *j.ExitCode)
	require.Zero(t, w.m.View().LeaseCount())
}

func TestGang_succeedsWhenAllDo(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(gang(2))
	w.place(id, "n1", "n2")
	w.report(id, 0, jobverbs.ReportStarting)
	w.report(id, 0, jobverbs.ReportRunning)
	require.Equal(t, starting, w.job(id).State, "alive on every rank, or not RUNNING")
	w.report(id, 0, jobverbs.ReportEnded, exit(0))
	require.Equal(t, starting, w.job(id).State)
	w.report(id, 1, jobverbs.ReportRunning)
	require.Equal(t, running, w.job(id).State)
	w.report(id, 1, jobverbs.ReportEnded, exit(0))
	require.Equal(t, succeeded, w.job(id).State)
}

func TestControl_answers(t *testing.T) {
	type step func(w *world, id ident.Job)
	place := func(w *world, id ident.Job) { w.place(id, "n1") }
	run := func(w *world, id ident.Job) { w.place(id, "n1"); w.run(id) }
	act := func(a work.Action) step {
		return func(w *world, id ident.Job) {
			require.Nil(w.t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: a}).Refusal)
		}
	}
	end := func(code int32) step {
		return func(w *world, id ident.Job) { w.report(id, 0, jobverbs.ReportEnded, exit(code)) }
	}
	tests := map[string]struct {
		before []step
		action work.Action
		code   kernel.Code // 0: done
		state  v1.JobState_Value
		stop   v1.StopReason_Value
	}{
		"cancel a queued job":            {nil, work.ActionCancel, 0, canceled, 0},
		"cancel a placed job":            {[]step{place}, work.ActionCancel, 0, allocated, v1.StopReason_CANCEL},
		"cancel a running job":           {[]step{run}, work.ActionCancel, 0, running, v1.StopReason_CANCEL},
		"cancel it again":                {[]step{run, act(work.ActionCancel)}, work.ActionCancel, 0, running, v1.StopReason_CANCEL},
		"cancel a paused job":            {[]step{act(work.ActionPause)}, work.ActionCancel, 0, canceled, 0},
		"cancel overrides pause":         {[]step{run, act(work.ActionPause)}, work.ActionCancel, 0, running, v1.StopReason_CANCEL},
		"cancel a finished job":          {[]step{run, end(0)}, work.ActionCancel, kernel.CodeFailedPrecondition, succeeded, 0},
		"cancel a canceled job":          {[]step{act(work.ActionCancel)}, work.ActionCancel, kernel.CodeFailedPrecondition, canceled, 0},
		"a canceled attempt ends":        {[]step{run, act(work.ActionCancel), end(143)}, work.ActionCancel, kernel.CodeFailedPrecondition, canceled, 0},
		"pause a queued job":             {nil, work.ActionPause, 0, paused, 0},
		"pause a running job":            {[]step{run}, work.ActionPause, 0, running, v1.StopReason_PAUSE},
		"pause it again":                 {[]step{run, act(work.ActionPause)}, work.ActionPause, 0, running, v1.StopReason_PAUSE},
		"pause a job that is canceled":   {[]step{run, act(work.ActionCancel)}, work.ActionPause, kernel.CodeFailedPrecondition, running, v1.StopReason_CANCEL},
		"pause a finished job":           {[]step{run, end(1)}, work.ActionPause, kernel.CodeFailedPrecondition, failedJob, 0},
		"a paused attempt ends with 0":   {[]step{run, act(work.ActionPause), end(0)}, work.ActionPause, 0, paused, 0},
		"resume a paused job":            {[]step{run, act(work.ActionPause), end(0)}, work.ActionResume, 0, queued, 0},
		"resume a running job":           {[]step{run}, work.ActionResume, kernel.CodeFailedPrecondition, running, 0},
		"resume a failed job":            {[]step{run, end(1)}, work.ActionResume, kernel.CodeFailedPrecondition, failedJob, 0},
		"retry a failed job":             {[]step{run, end(1)}, work.ActionRetry, 0, queued, 0},
		"retry a canceled job":           {[]step{act(work.ActionCancel)}, work.ActionRetry, 0, queued, 0},
		"retry a job that has succeeded": {[]step{run, end(0)}, work.ActionRetry, kernel.CodeFailedPrecondition, succeeded, 0},
		"retry a running job":            {[]step{run}, work.ActionRetry, kernel.CodeFailedPrecondition, running, 0},
		"retry a paused job":             {[]step{act(work.ActionPause)}, work.ActionRetry, kernel.CodeFailedPrecondition, paused, 0},
		"do what nobody knows how to do": {nil, 99, kernel.CodeInvalidArgument, queued, 0},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			id := w.submit(oneGPU())
			for _, s := range c.before {
				s(w, id)
			}
			before := w.job(id)
			r := do[jobverbs.ControlResult](w, jobverbs.ControlJob{Tenant: "acme", Job: id, Action: c.action})
			if c.code != 0 {
				require.NotNil(t, r.Refusal)
				require.Equal(t, c.code, r.Refusal.Code)
				require.NotEmpty(t, words.Of(r.Refusal.Reason))
				require.Same(t, before, w.job(id), "a refusal changes nothing")
			} else {
				require.Nil(t, r.Refusal)
				require.Same(t, w.job(id), r.Job)
			}
			require.Equal(t, c.state, w.job(id).State)
			require.Equal(t, c.stop, w.job(id).Stop)
		})
	}
}

func TestControl_ofAnotherTenantsJobIsNotFound(t *testing.T) {
	w := newWorld(t)
	id := w.submit(oneGPU())
	r := do[jobverbs.ControlResult](w, jobverbs.ControlJob{Tenant: "umbrella", Job: id, Action: work.ActionCancel})
	require.Equal(t, kernel.CodeNotFound, r.Refusal.Code)
	require.Equal(t, queued, w.job(id).State)
}

func TestPause_withoutSavingTakesNoGrace(t *testing.T) {
	for save, want := range map[bool]int64{true: work.DefaultGrace, false: 0} {
		w := newWorld(t)
		w.node("n1", 8)
		id := w.submit(oneGPU())
		w.place(id, "n1")
		w.run(id)
		do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionPause, SaveCheckpoint: save})
		require.Equal(t, want, w.job(id).StopGrace)
	}
}

func TestCheckpoints_areWhereTheNextAttemptGoesOn(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(oneGPU())
	w.place(id, "n1")
	w.run(id)
	at := func(path string, step int64) func(*jobverbs.TaskReport) {
		return func(r *jobverbs.TaskReport) { r.Path, r.Step, r.Digest = path, step, "d" }
	}
	first := w.report(id, 0, jobverbs.ReportCheckpoint, at("/c/100", 100)).Checkpoints[0]
	again := w.report(id, 0, jobverbs.ReportCheckpoint, at("/c/100", 100))
	require.Equal(t, jobverbs.ReportResult{Duplicate: 1}, again, "reported twice, registered once")
	second := w.report(id, 0, jobverbs.ReportCheckpoint, at("/c/200", 200)).Checkpoints[0]
	require.Equal(t, second, w.job(id).LastCheckpoint)

	do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionPause, SaveCheckpoint: true})
	w.report(id, 0, jobverbs.ReportEnded, exit(0))
	require.Equal(t, second, w.job(id).ResumeFrom)
	late := w.report(id, 0, jobverbs.ReportCheckpoint, at("/c/300", 300))
	require.Equal(t, jobverbs.ReportResult{Stale: 1}, late, "the lease is gone")

	r := do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionResume, Checkpoint: 12345})
	require.Equal(t, kernel.CodeInvalidArgument, r.Refusal.Code)
	do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionResume, Checkpoint: first})
	require.Equal(t, first, w.job(id).ResumeFrom)
	w.place(id, "n1")
	require.Equal(t, first, w.job(id).ResumeFrom)
	// Written over: one path holds one checkpoint.
	w.run(id)
	third := w.report(id, 0, jobverbs.ReportCheckpoint, at("/c/200", 200)).Checkpoints[0]
	_, ok := w.m.View().Checkpoint(second)
	require.False(t, ok)
	var ids []ident.Checkpoint
	for c := range w.m.View().CheckpointsOf(id) {
		ids = append(ids, c.ID)
	}
	require.Equal(t, []ident.Checkpoint{first, third}, ids)
}

func TestRetry_withOtherResources(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(oneGPU())
	do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
	shape := work.Shape{Nodes: 1, GPUs: 4, GPUType: "h100"}
	bad := shape
	bad.GPUType = "A100"
	require.Equal(t, kernel.CodeInvalidArgument, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionRetry, Shape: &bad}).Refusal.Code)
	require.Equal(t, canceled, w.job(id).State)
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionRetry, Shape: &shape, Spec: []byte("new")}).Refusal)
	require.Equal(t, work.Shape{Nodes: 1, GPUs: 4, GPUType: "H100"}, w.job(id).Shape, "spelled as the nodes do")
	require.Equal(t, []byte("new"), w.job(id).Spec)
}
