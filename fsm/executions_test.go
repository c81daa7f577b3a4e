package fsm_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/coreverbs"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

func (w *world) start(core ident.Core) ident.Execution {
	r := do[executionverbs.StartsResult](w, executionverbs.StartExecutions{Starts: []executionverbs.Start{startOf(core)}}).Results[0]
	require.Nil(w.t, r.Refusal)
	return r.Execution.ID
}

func startOf(core ident.Core) executionverbs.Start {
	return executionverbs.Start{Core: core, Tenant: "acme", User: "ada", Version: 1, Flow: "main", Frame: []byte("f0"), Trigger: "api"}
}

func (w *world) execution(id ident.Execution) *executions.Execution {
	e, ok := w.m.View().Execution(id)
	require.True(w.t, ok)
	return e
}

// advance takes a step of an execution, as the leader would: with all results that are there.
func (w *world) advance(id ident.Execution, effects ...executionverbs.Effect) executionverbs.Result {
	return w.step(executionverbs.Advance{Execution: id, Effects: effects, Outcome: executionverbs.GoesOn})
}

func (w *world) step(a executionverbs.Advance) executionverbs.Result {
	e := w.execution(a.Execution)
	a.Seq, a.Frame = e.Seq, []byte("f")
	for i := range e.Waits {
		if e.Waits[i].Done {
			a.Used = append(a.Used, e.Waits[i].ID)
		}
	}
	return do[executionverbs.AdvancesResult](w, executionverbs.AdvanceExecutions{Advances: []executionverbs.Advance{a}}).Results[0]
}

func (w *world) tick() { w.do(clusterverbs.Tick{}) }

func aJob(wait uint32) executionverbs.Effect {
	n := oneGPU()
	return executionverbs.Effect{Wait: wait, Path: "train", Job: &n}
}

func aQuestion(wait uint32) executionverbs.Effect {
	return executionverbs.Effect{Wait: wait, Path: "ask", Timeout: int64(time.Hour), Ask: &executions.Decision{
		Type: "approval", Prompt: "Ship it?", Options: []executions.Option{{ID: "yes"}, {ID: "no"}}, OnExpiry: executions.ExpireFail,
	}}
}

func TestExecution_startsOnceForItsKey(t *testing.T) {
	w := newWorld(t)
	core := w.core("triage")
	s := startOf(core)
	s.Key, s.Fingerprint = "k", 1
	start := func() executionverbs.Result {
		return do[executionverbs.StartsResult](w, executionverbs.StartExecutions{Starts: []executionverbs.Start{s}, Actor: &access.Actor{}}).Results[0]
	}
	first, again := start(), start()
	require.True(t, again.Duplicate)
	require.Equal(t, first.Execution.ID, again.Execution.ID)
	s.Fingerprint = 2
	require.Equal(t, kernel.CodeAlreadyExists, start().Refusal.Code)
	s.Key = ""
	require.Nil(t, do[coreverbs.Result](w, coreverbs.ControlCore{ID: core, Action: cores.Pause}).Refusal)
	require.Equal(t, reason.New(reason.CoreNotRunning, "triage", "paused"), start().Refusal.Reason)
}

// TestExecution_endOfItsJobWakesIt holds that one entry ends the job and makes the execution ready.
func TestExecution_endOfItsJobWakesIt(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.start(w.core("triage"))
	require.Equal(t, executions.Ready, w.execution(id).Status)
	require.Nil(t, w.advance(id, aJob(1)).Refusal)
	e := w.execution(id)
	require.Equal(t, executions.Waiting, e.Status)
	job := e.Waits[0].Job
	require.Equal(t, "ada", w.job(job).User)
	w.place(job, "n1")
	w.run(job)
	require.Equal(t, executions.Waiting, w.execution(id).Status)
	w.report(job, 0, jobverbs.ReportEnded, exit(0))
	e = w.execution(id)
	require.Equal(t, executions.Ready, e.Status)
	require.Equal(t, v1.JobState_SUCCEEDED, e.Waits[0].State)
	require.Nil(t, w.step(executionverbs.Advance{Execution: id, Outcome: executionverbs.Completes, Output: []byte("out")}).Refusal)
	e = w.execution(id)
	require.Equal(t, []any{executions.Completed, []byte("out"), []byte(nil)}, []any{e.Status, e.Output, e.Frame})
	require.Equal(t, reason.ExecutionOver, w.step(executionverbs.Advance{Execution: id, Outcome: executionverbs.GoesOn}).Refusal.Reason.Code())
}

// A job that is drained, preempted or lost and gets another attempt is not over, although it is PREEMPTED or LOST for a moment.
func TestExecution_aJobThatIsRestartedIsNotOver(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	id := w.start(w.core("triage"))
	n := retried(oneGPU(), 3)
	w.advance(id, executionverbs.Effect{Wait: 1, Path: "train", Job: &n})
	job := w.execution(id).Waits[0].Job
	w.place(job, "n1")
	w.run(job)
	w.do(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Force: true})
	w.stops(job)
	require.Equal(t, v1.JobState_QUEUED, w.job(job).State)
	require.False(t, w.execution(id).Waits[0].Done, "the job is drained")
	w.do(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeEnable})
	w.place(job, "n1")
	w.run(job)
	w.report(job, 0, jobverbs.ReportEnded, func(r *jobverbs.TaskReport) { r.ErrorType = v1.ErrorType_NODE_LOST })
	require.Equal(t, v1.JobState_QUEUED, w.job(job).State)
	require.False(t, w.execution(id).Waits[0].Done, "its node was lost")
	do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: job, Action: work.ActionCancel})
	require.Equal(t, []any{true, v1.JobState_CANCELED}, []any{w.execution(id).Waits[0].Done, w.execution(id).Waits[0].State})
}

func TestExecution_waitsForTheStartOfAJob(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.start(w.core("triage"))
	started, submitted := aJob(1), aJob(2)
	started.Until, submitted.Until = executionverbs.UntilStart, executionverbs.UntilSubmitted
	w.advance(id, started, submitted)
	e := w.execution(id)
	require.Equal(t, []bool{false, true}, []bool{e.Waits[0].Done, e.Waits[1].Done})
	w.place(e.Waits[0].Job, "n1")
	w.run(e.Waits[0].Job)
	require.True(t, w.execution(id).Waits[0].Done)
}

// TestExecution_aStepHappensOnce holds that of two leaders which compute the same step one gets it (I20), and its job is submitted once.
func TestExecution_aStepHappensOnce(t *testing.T) {
	w := newWorld(t)
	id := w.start(w.core("triage"))
	step := executionverbs.AdvanceExecutions{Advances: []executionverbs.Advance{{Execution: id, Frame: []byte("f"), Effects: []executionverbs.Effect{aJob(1)}, Outcome: executionverbs.GoesOn}}}
	require.Nil(t, do[executionverbs.AdvancesResult](w, step).Results[0].Refusal)
	require.Equal(t, reason.ExecutionChanged, do[executionverbs.AdvancesResult](w, step).Results[0].Refusal.Reason.Code())
	jobs := 0
	for range w.m.View().Jobs(false, 0) {
		jobs++
	}
	require.Equal(t, 1, jobs)
}

func TestExecution_refusedEffectIsItsResult(t *testing.T) {
	w := newWorld(t)
	id := w.start(w.core("triage"))
	bad := aJob(1)
	bad.Job.Queue = "nope"
	w.advance(id, bad)
	wait := w.execution(id).Waits[0]
	require.True(t, wait.Done)
	require.Equal(t, "INVALID", wait.Err.Code)
	require.NotEmpty(t, wait.Err.Reason)
}

func TestExecution_timerAndTimeout(t *testing.T) {
	w := newWorld(t)
	id := w.start(w.core("triage"))
	limited := aJob(2)
	limited.Timeout = int64(2 * time.Minute)
	w.advance(id, executionverbs.Effect{Wait: 1, Timer: true, After: int64(time.Minute)}, limited, executionverbs.Effect{Wait: 3, Event: "go", Timeout: int64(time.Hour)})
	job := w.execution(id).Waits[1].Job
	at, any := w.m.View().NextDue()
	require.True(t, any)
	require.Equal(t, w.now+int64(time.Minute), at)
	w.later(time.Minute)
	w.tick()
	require.True(t, w.execution(id).Waits[0].Done)
	require.Nil(t, w.execution(id).Waits[0].Err)
	w.later(time.Minute)
	w.tick()
	require.Equal(t, "TIMEOUT", w.execution(id).Waits[1].Err.Code)
	require.Equal(t, v1.JobState_CANCELED, w.job(job).State, "nobody waits for it any more")
	w.later(time.Hour)
	w.tick()
	require.Equal(t, "TIMEOUT", w.execution(id).Waits[2].Err.Code)
}

func TestExecution_events(t *testing.T) {
	w := newWorld(t)
	core := w.core("triage")
	one, two := w.start(core), w.start(core)
	for _, id := range []ident.Execution{one, two} {
		w.advance(id, executionverbs.Effect{Wait: 1, Event: "go"})
	}
	send := executionverbs.SendEvent{Core: core, Tenant: "acme", Name: "go", Data: []byte("d"), Execution: one}
	require.Equal(t, 1, do[executionverbs.SentResult](w, send).Woken)
	require.Equal(t, reason.NotWaitingForSignal, do[executionverbs.SentResult](w, send).Refusal.Reason.Code())
	require.Equal(t, []byte("d"), w.execution(one).Waits[0].Result)
	send.Execution, send.Starts = 0, []executionverbs.Start{startOf(core)}
	sent := do[executionverbs.SentResult](w, send)
	require.Equal(t, 1, sent.Woken)
	require.Len(t, sent.Started, 1)
}

func TestDecision_isResolvedOnce(t *testing.T) {
	w := newWorld(t)
	id := w.start(w.core("triage"))
	ask := aQuestion(1)
	ask.Ask.Assignee, ask.Ask.Subject = "group:ml", "sha256:1"
	w.advance(id, ask)
	d := w.execution(id).Waits[0].Decision
	resolve := executionverbs.ResolveDecision{Decision: d, Tenant: "acme", User: "bob", Resolution: "yes"}
	code := func() reason.Code {
		return do[executionverbs.DecisionResult](w, resolve).Refusal.Reason.Code()
	}
	require.Equal(t, reason.NotAssignee, code())
	resolve.As = []string{"group:ml"}
	resolve.Subject = "sha256:0"
	require.Equal(t, reason.StaleSubject, code())
	resolve.Subject, resolve.Resolution = "sha256:1", "maybe"
	require.Equal(t, reason.BadAnswer, code())
	resolve.Resolution = "yes"
	require.Nil(t, do[executionverbs.DecisionResult](w, resolve).Refusal)
	require.Equal(t, executions.Ready, w.execution(id).Status)
	require.Equal(t, reason.DecisionOver, code())
	row, _ := w.m.View().Decision(d)
	require.Equal(t, []string{"yes", "bob"}, []string{row.Resolution, row.ResolvedBy})
	resolve.Tenant = "umbrella"
	require.Equal(t, reason.NoDecision, code())
}

func TestDecision_quorum(t *testing.T) {
	w := newWorld(t)
	id := w.start(w.core("triage"))
	ask := aQuestion(1)
	ask.Ask.Needed, ask.Ask.Of = 2, 3
	w.advance(id, ask)
	d := w.execution(id).Waits[0].Decision
	vote := func(user, answer string) executionverbs.DecisionResult {
		return do[executionverbs.DecisionResult](w, executionverbs.ResolveDecision{Decision: d, Tenant: "acme", User: user, Resolution: answer})
	}
	require.Equal(t, executions.Pending, vote("ann", "yes").Decision.Status)
	require.Equal(t, reason.AlreadyVoted, vote("ann", "yes").Refusal.Reason.Code())
	require.Equal(t, executions.Pending, vote("bob", "no").Decision.Status)
	require.Equal(t, executions.Resolved, vote("cid", "no").Decision.Status)
	require.True(t, w.execution(id).Waits[0].Done)
}

func TestDecision_quorumThatCannotAgree(t *testing.T) {
	w := newWorld(t)
	id := w.start(w.core("triage"))
	ask := aQuestion(1)
	ask.Ask.Needed, ask.Ask.Of = 2, 2
	w.advance(id, ask)
	d := w.execution(id).Waits[0].Decision
	for _, v := range [][2]string{{"ann", "yes"}, {"bob", "no"}} {
		do[executionverbs.DecisionResult](w, executionverbs.ResolveDecision{Decision: d, Tenant: "acme", User: v[0], Resolution: v[1]})
	}
	require.Equal(t, "EXPIRED", w.execution(id).Waits[0].Err.Code)
}

func TestDecision_expiresRemindsAndEscalates(t *testing.T) {
	w := newWorld(t)
	id := w.start(w.core("triage"))
	fails, continues, escalates, answers := aQuestion(1), aQuestion(2), aQuestion(3), aQuestion(4)
	fails.Ask.RemindEvery = int64(20 * time.Minute)
	continues.Ask.OnExpiry = executions.ExpireContinue
	escalates.Ask.OnExpiry, escalates.Ask.EscalateTo = executions.ExpireEscalate, "role:lead"
	answers.Ask.OnExpiry, answers.Ask.Default = executions.ExpireResolve, "no"
	w.advance(id, fails, continues, escalates, answers)
	decision := func(i int) *executions.Decision {
		d, _ := w.m.View().Decision(w.execution(id).Waits[i].Decision)
		return d
	}
	w.later(25 * time.Minute)
	w.tick()
	require.Equal(t, uint32(1), decision(0).Reminders)
	w.later(40 * time.Minute)
	w.tick()
	e := w.execution(id)
	require.Equal(t, "EXPIRED", e.Waits[0].Err.Code)
	require.Equal(t, executions.Expired, decision(0).Status)
	require.True(t, e.Waits[1].Done)
	require.Nil(t, e.Waits[1].Err)
	require.False(t, e.Waits[2].Done)
	require.Equal(t, []any{"role:lead", executions.Role, true}, []any{decision(2).Assignee, decision(2).AssigneeType, decision(2).Escalated})
	require.Equal(t, []any{executions.Resolved, "no"}, []any{decision(3).Status, decision(3).Resolution})
	w.later(2 * time.Hour)
	w.tick()
	require.Equal(t, "EXPIRED", w.execution(id).Waits[2].Err.Code)
}

func TestDecision_isCanceledAndReassigned(t *testing.T) {
	w := newWorld(t)
	id := w.start(w.core("triage"))
	w.advance(id, aQuestion(1))
	d := w.execution(id).Waits[0].Decision
	moved := do[executionverbs.DecisionResult](w, executionverbs.ReassignDecision{Decision: d, Tenant: "acme", Assignee: "bob"}).Decision
	require.Equal(t, executions.User, moved.AssigneeType)
	require.Nil(t, do[executionverbs.DecisionResult](w, executionverbs.CancelDecision{Decision: d, Tenant: "acme", User: "bob", Reason: "wrong model"}).Refusal)
	require.Equal(t, "CANCELED", w.execution(id).Waits[0].Err.Code)
}

func TestExecution_callsAnother(t *testing.T) {
	w := newWorld(t)
	core := w.core("triage")
	parent := w.start(core)
	call := startOf(core)
	w.advance(parent, executionverbs.Effect{Wait: 1, Call: &call}, executionverbs.Effect{Wait: 2, Call: &call, Async: true})
	e := w.execution(parent)
	require.Equal(t, []bool{false, true}, []bool{e.Waits[0].Done, e.Waits[1].Done})
	require.Equal(t, w.now+int64(24*time.Hour), e.Waits[0].Deadline)
	child := e.Waits[0].Execution
	require.Equal(t, []any{parent, uint8(1)}, []any{w.execution(child).Parent, w.execution(child).Depth})
	w.step(executionverbs.Advance{Execution: child, Outcome: executionverbs.Completes, Output: []byte("out")})
	require.Equal(t, []byte("out"), w.execution(parent).Waits[0].Result)

	deep := w.start(core)
	for range executions.MaxDepth {
		w.advance(deep, executionverbs.Effect{Wait: 1, Call: &call})
		deep = w.execution(deep).Waits[0].Execution
	}
	w.advance(deep, executionverbs.Effect{Wait: 1, Call: &call})
	require.Equal(t, reason.CalledTooDeep, w.execution(deep).Waits[0].Err.Reason.Code())
}

func TestExecution_cancelLeavesNothing(t *testing.T) {
	w := newWorld(t)
	core := w.core("triage")
	id := w.start(core)
	call := startOf(core)
	w.advance(id, aJob(1), aQuestion(2), executionverbs.Effect{Wait: 3, Call: &call}, executionverbs.Effect{Wait: 4, Timer: true, After: 1e9})
	waits := w.execution(id).Waits
	cancel := executionverbs.ControlExecution{Execution: id, Tenant: "acme", Action: executionverbs.Cancel, Reason: "enough"}
	require.Nil(t, do[executionverbs.Result](w, cancel).Refusal)
	require.Equal(t, executions.Ready, w.execution(id).Status, "its program says what to do about it")
	w.step(executionverbs.Advance{Execution: id, Canceling: true, Outcome: executionverbs.IsCanceled})
	require.Equal(t, executions.Canceled, w.execution(id).Status)
	require.Equal(t, v1.JobState_CANCELED, w.job(waits[0].Job).State)
	d, _ := w.m.View().Decision(waits[1].Decision)
	require.Equal(t, executions.DecisionCanceled, d.Status)
	require.True(t, w.execution(waits[2].Execution).Cancel)
	require.Equal(t, reason.ExecutionOver, do[executionverbs.Result](w, cancel).Refusal.Reason.Code())

	forced := w.start(core)
	cancel.Execution, cancel.Force = forced, true
	require.Equal(t, executions.Canceled, do[executionverbs.Result](w, cancel).Execution.Status)
}

func TestExecution_pauseHoldsIt(t *testing.T) {
	w := newWorld(t)
	core := w.core("triage")
	id := w.start(core)
	w.advance(id, executionverbs.Effect{Wait: 1, Timer: true, After: 1e9})
	say := func(a executionverbs.Action) executions.Status {
		return do[executionverbs.Result](w, executionverbs.ControlExecution{Execution: id, Tenant: "acme", Action: a}).Execution.Status
	}
	require.Equal(t, executions.Paused, say(executionverbs.Pause))
	w.later(time.Second)
	w.tick()
	require.Equal(t, executions.Paused, w.execution(id).Status)
	require.True(t, w.execution(id).Waits[0].Done, "time goes on")
	require.Equal(t, executions.Ready, say(executionverbs.Resume))
}

func TestExecution_failedOneIsRetried(t *testing.T) {
	w := newWorld(t)
	id := w.start(w.core("triage"))
	w.step(executionverbs.Advance{Execution: id, Outcome: executionverbs.Fails, Err: &executions.Failure{Code: "X", Step: "train"}})
	e := w.execution(id)
	require.Equal(t, []byte("f"), e.Frame, "it is kept")
	retry := executionverbs.ControlExecution{Execution: id, Tenant: "acme", Action: executionverbs.Retry, Frame: []byte("g"), Seq: e.Seq}
	require.Equal(t, executions.Ready, do[executionverbs.Result](w, retry).Execution.Status)
	require.Equal(t, reason.ExecutionNotFailed, do[executionverbs.Result](w, retry).Refusal.Reason.Code())
	w.step(executionverbs.Advance{Execution: id, Outcome: executionverbs.Fails})
	require.Equal(t, reason.ExecutionChanged, do[executionverbs.Result](w, retry).Refusal.Reason.Code(), "it was made from another frame")
}

// TestExecution_controlOfAJobThatItWaitsFor ends the job of one wait in the effect of another: the wake must not be lost.
func TestExecution_controlOfAJobThatItWaitsFor(t *testing.T) {
	w := newWorld(t)
	id := w.start(w.core("triage"))
	w.advance(id, aJob(1))
	job := w.execution(id).Waits[0].Job
	w.advance(id, executionverbs.Effect{Wait: 2, Control: &jobverbs.ControlJob{Job: job, Action: work.ActionCancel}})
	e := w.execution(id)
	require.Equal(t, []bool{true, true}, []bool{e.Waits[0].Done, e.Waits[1].Done})
	require.Equal(t, v1.JobState_CANCELED, e.Waits[0].State)
}

func TestExecution_stepsAndEventsAreKept(t *testing.T) {
	w := newWorld(t)
	id := w.start(w.core("triage"))
	for range executions.MaxSteps + 3 {
		w.step(executionverbs.Advance{Execution: id, Outcome: executionverbs.GoesOn, More: true, Events: []executions.Happening{
			{Type: executionverbs.TypeEntered, Path: "a", Kind: "rigid"}, {Type: executionverbs.TypeExited, Path: "a", Value: make([]byte, executions.MaxEventValue+1)},
		}})
	}
	e := w.execution(id)
	require.Len(t, e.Steps, executions.MaxSteps)
	require.NotZero(t, e.Steps[0].EndedAt)
	for s := range w.m.View().Segments(0) {
		require.Equal(t, []bool{false, true}, []bool{s.Events[0].Truncated, s.Events[1].Truncated})
		break
	}
	// The events of one execution are found without those of the others.
	other := w.start(w.core("other"))
	var ids []uint64
	for s := range w.m.View().SegmentsOf(id, 0) {
		require.Equal(t, id, s.Execution)
		ids = append(ids, s.ID)
	}
	require.Len(t, ids, 1+executions.MaxSteps+3)
	require.IsDecreasing(t, ids)
	for s := range w.m.View().SegmentsOf(id, ids[1]) {
		require.Equal(t, ids[2], s.ID)
		break
	}
	require.Len(t, slices.Collect(w.m.View().SegmentsOf(other, 0)), 1)
}

func TestExecution_belowItsLevelIsRefused(t *testing.T) {
	_, err := kernel.Encode(level.Base, executionverbs.StartExecutions{})
	require.ErrorContains(t, err, "hosting programs (Cores) needs feature level 2")
}

// An event that comes twice with its key starts nothing again and wakes nothing again; one whose start is refused does nothing.
func TestExecution_eventHappensOnceOrNotAtAll(t *testing.T) {
	w := newWorld(t)
	core := w.core("triage")
	one := w.start(core)
	w.advance(one, executionverbs.Effect{Wait: 1, Event: "go"})
	s := startOf(core)
	s.Key = "k"
	send := executionverbs.SendEvent{Core: core, Tenant: "acme", Name: "go", Starts: []executionverbs.Start{s}}
	send.Starts[0].Version = 9
	require.Equal(t, reason.CoreChanged, do[executionverbs.SentResult](w, send).Refusal.Reason.Code())
	require.False(t, w.execution(one).Waits[0].Done, "nothing is half done")
	send.Starts[0].Version = 1
	first := do[executionverbs.SentResult](w, send)
	require.Equal(t, 1, first.Woken)
	w.advance(one, executionverbs.Effect{Wait: 2, Event: "go"})
	again := do[executionverbs.SentResult](w, send)
	require.Equal(t, []any{true, 0, first.Started}, []any{again.Duplicate, again.Woken, again.Started})
	require.False(t, w.execution(one).Waits[0].Done)
}

// A Tick fires a bounded number of timers, so that no entry keeps other writes waiting, and asks for the next Tick.
func TestExecutions_manyTimersFireInManyTicks(t *testing.T) {
	w := newWorld(t)
	w.waiting(1200, false)
	w.later(2 * time.Hour)
	for _, fired := range []int{500, 1000, 1200} {
		more := w.quick(clusterverbs.Tick{})[0].(clusterverbs.TickResult).More
		require.Equal(t, fired, w.m.View().ReadyCount())
		require.Equal(t, fired < 1200, more)
	}
}
