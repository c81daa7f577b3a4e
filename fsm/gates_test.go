package fsm_test

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// aRunningJob is a job that runs on a node of one GPU.
func aRunningJob(t *testing.T) (*world, ident.Job) {
	w := newWorld(t)
	w.node("n1", 1)
	id := w.submit(oneGPU())
	w.place(id, "n1")
	w.run(id)
	return w, id
}

// gated is a job that runs on a node of one GPU and has reached a gate.
func gated(t *testing.T, change ...func(*executions.Decision)) (*world, ident.Job) {
	w, id := aRunningJob(t)
	require.Equal(t, 1, w.reach(id, "check", change...).Applied)
	return w, id
}

// reach reports that a job is at a gate.
func (w *world) reach(id ident.Job, name string, change ...func(*executions.Decision)) jobverbs.ReportResult {
	asked := &executions.Decision{
		Path: name, Prompt: "Does it look right?", Options: []executions.Option{{ID: "go"}, {ID: "stop", Cancels: true}}, OnExpiry: executions.ExpireFail,
	}
	for _, c := range change {
		c(asked)
	}
	return w.report(id, 0, jobverbs.ReportGate, func(r *jobverbs.TaskReport) { r.Gate = asked })
}

func (w *world) gates(id ident.Job) []*executions.Decision {
	return slices.Collect(w.m.View().GatesOf(id))
}

func (w *world) stops(id ident.Job) {
	w.report(id, 0, jobverbs.ReportEnded, func(r *jobverbs.TaskReport) { r.ExitCode = new(int32) })
}

func (w *world) answer(d *executions.Decision, answer string) executionverbs.DecisionResult {
	return do[executionverbs.DecisionResult](w, executionverbs.ResolveDecision{Decision: d.ID, Tenant: d.Tenant, User: "ann", Any: true, Resolution: answer})
}

func TestGate_theJobWaitsWithoutGPUs(t *testing.T) {
	w, id := gated(t)
	require.Equal(t, v1.StopReason_PAUSE, w.job(id).Stop)
	d := w.gates(id)[0]
	require.Equal(t, executions.Pending, d.Status)
	require.Equal(t, "acme", d.Tenant)
	require.Equal(t, w.now+int64(30*24*time.Hour), d.ExpiresAt)
	w.stops(id)
	require.Equal(t, v1.JobState_PAUSED, w.job(id).State)
	require.Equal(t, reason.WaitsAtGate, w.job(id).Reason.Code())
	require.Zero(t, w.m.View().LeaseCount())

	refused := do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionResume}).Refusal
	require.Equal(t, reason.ResumeAtGate, refused.Reason.Code())

	require.Nil(t, w.answer(d, "go").Refusal)
	require.Equal(t, v1.JobState_QUEUED, w.job(id).State)
	require.Equal(t, reason.GateAnswered, w.job(id).Reason.Code())
	require.Equal(t, reason.DecisionOver, w.answer(d, "go").Refusal.Reason.Code())

	w.place(id, "n1")
	w.run(id)
	require.Zero(t, w.reach(id, "check").Applied, "a gate that was passed is not asked about again")
	require.Equal(t, 1, w.reach(id, "second").Applied)
	require.Len(t, w.gates(id), 2)
}

func TestGate_answeredBeforeTheJobHasStopped(t *testing.T) {
	w, id := gated(t)
	require.Zero(t, w.reach(id, "other").Applied, "one gate at a time")
	r := w.answer(w.gates(id)[0], "go")
	require.Nil(t, r.Refusal)
	require.True(t, r.Decision.Owed)
	require.Equal(t, v1.JobState_RUNNING, w.job(id).State)
	w.stops(id)
	require.Equal(t, v1.JobState_QUEUED, w.job(id).State)
	require.False(t, w.gates(id)[0].Owed)
	require.Empty(t, w.job(id).Tasks)
}

func TestGate_anAnswerMayCancel(t *testing.T) {
	for name, stopped := range map[string]bool{"while it stops": false, "when it has stopped": true} {
		t.Run(name, func(t *testing.T) {
			w, id := gated(t)
			if stopped {
				w.stops(id)
			}
			require.Nil(t, w.answer(w.gates(id)[0], "stop").Refusal)
			if !stopped {
				w.stops(id)
			}
			require.Equal(t, v1.JobState_CANCELED, w.job(id).State)
			require.Equal(t, reason.CanceledAtGate, w.job(id).Reason.Code())
		})
	}
}

func TestGate_nobodyAnswers(t *testing.T) {
	for action, want := range map[executions.OnExpiry]v1.JobState_Value{
		executions.ExpireFail: v1.JobState_CANCELED, executions.ExpireContinue: v1.JobState_QUEUED, executions.ExpireResolve: v1.JobState_QUEUED,
	} {
		w, id := gated(t, func(d *executions.Decision) { d.OnExpiry, d.ExpiresAt, d.Default = action, int64(time.Hour), "go" })
		w.stops(id)
		w.later(time.Hour - 1)
		w.tick()
		require.Equal(t, v1.JobState_PAUSED, w.job(id).State)
		w.later(1)
		w.tick()
		require.Equal(t, want, w.job(id).State, action)
	}
}

func TestGate_theJobIsCanceledOrForgotten(t *testing.T) {
	w, id := gated(t)
	w.stops(id)
	do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
	require.Equal(t, v1.JobState_CANCELED, w.job(id).State)
	require.Equal(t, executions.DecisionCanceled, w.gates(id)[0].Status)
	w.report(id, 0, jobverbs.ReportEnded)

	// A job that is retried is asked again: nobody has said that it may go on.
	do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionRetry})
	w.place(id, "n1")
	w.run(id)
	require.Equal(t, 1, w.reach(id, "check").Applied)
}

func TestGate_theQuestionIsTakenBack(t *testing.T) {
	w, id := gated(t)
	w.stops(id)
	d := w.gates(id)[0]
	require.Nil(t, do[executionverbs.DecisionResult](w, executionverbs.CancelDecision{Decision: d.ID, Tenant: d.Tenant}).Refusal)
	require.Equal(t, v1.JobState_PAUSED, w.job(id).State)
	require.Equal(t, reason.GateTakenBack, w.job(id).Reason.Code(), "it waits for no answer any more, and says so")
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionResume}).Refusal)
	require.Equal(t, v1.JobState_QUEUED, w.job(id).State)

	w, id = gated(t)
	require.Nil(t, do[executionverbs.DecisionResult](w, executionverbs.CancelDecision{Decision: w.gates(id)[0].ID, Tenant: "acme"}).Refusal)
	w.stops(id)
	require.Equal(t, reason.GateTakenBack, w.job(id).Reason.Code(), "the same while it stops")
}

func TestGate_aJobThatEndsIsNotAsked(t *testing.T) {
	w, id := aRunningJob(t)
	do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
	require.Zero(t, w.reach(id, "check").Applied)
	require.Empty(t, w.gates(id))
}

// A job that a user pauses is not asked about, and stays paused whatever people answer meanwhile.
func TestGate_aUserPausesTheJob(t *testing.T) {
	pause := jobverbs.ControlJob{Action: work.ActionPause, SaveCheckpoint: true}
	w, id := aRunningJob(t)
	pause.Job = id
	require.Nil(t, do[jobverbs.ControlResult](w, pause).Refusal)
	require.Zero(t, w.reach(id, "check").Applied)

	for name, order := range map[string][]string{
		"paused, stopped, answered": {"pause", "stop", "answer"}, "stopped, paused, answered": {"stop", "pause", "answer"},
		"paused, answered, stopped": {"pause", "answer", "stop"}, "answered, paused, stopped": {"answer", "pause", "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			w, id := gated(t)
			pause.Job = id
			for _, what := range order {
				switch what {
				case "pause":
					require.Nil(t, do[jobverbs.ControlResult](w, pause).Refusal)
				case "stop":
					w.stops(id)
				case "answer":
					require.Nil(t, w.answer(w.gates(id)[0], "go").Refusal)
				}
			}
			require.Equal(t, v1.JobState_PAUSED, w.job(id).State)
			require.Equal(t, reason.GateKept, w.job(id).Reason.Code(), "it waits for the user, and not for an answer")
			require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionResume}).Refusal)
			require.Equal(t, v1.JobState_QUEUED, w.job(id).State)
		})
	}
}

// A job that is to make room does so as it was told, and waits for the answer afterwards.
func TestGate_ofAJobThatIsPreempted(t *testing.T) {
	w, id := aRunningJob(t)
	w.do(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Force: true})
	require.Equal(t, v1.StopReason_DRAIN, w.job(id).Stop)
	require.Equal(t, 1, w.reach(id, "check").Applied)
	require.Equal(t, v1.StopReason_DRAIN, w.job(id).Stop)
	w.stops(id)
	require.Equal(t, v1.JobState_PAUSED, w.job(id).State)
	require.Nil(t, w.answer(w.gates(id)[0], "go").Refusal)
	require.Equal(t, v1.JobState_QUEUED, w.job(id).State)
}

// People who cannot agree any more have not said that the job goes on, whatever happens when nobody answers in time.
func TestGate_peopleDisagree(t *testing.T) {
	w, id := gated(t, func(d *executions.Decision) { d.Needed, d.Of, d.OnExpiry = 2, 2, executions.ExpireContinue })
	w.stops(id)
	for user, answer := range map[string]string{"ann": "go", "bob": "stop"} {
		require.Nil(t, do[executionverbs.DecisionResult](w, executionverbs.ResolveDecision{Decision: w.gates(id)[0].ID, Tenant: "acme", User: user, Any: true, Resolution: answer}).Refusal)
	}
	require.Equal(t, v1.JobState_CANCELED, w.job(id).State)
	require.Equal(t, reason.GateUndecided, w.job(id).Reason.Code())
}

func TestGate_aJobThatIsCanceledTakesItsQuestionBack(t *testing.T) {
	w, id := gated(t)
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionCancel}).Refusal)
	require.Equal(t, executions.DecisionCanceled, w.gates(id)[0].Status)
	require.Equal(t, reason.DecisionOver, w.answer(w.gates(id)[0], "go").Refusal.Reason.Code())
}

// Only those who may answer have somebody else asked, or take a question back.
func TestDecision_isTheAssigneesToHandOn(t *testing.T) {
	w, id := gated(t, func(d *executions.Decision) { d.Assignee = "role:lead" })
	d := w.gates(id)[0]
	for _, c := range []kernel.Command{
		executionverbs.ReassignDecision{Decision: d.ID, Tenant: d.Tenant, User: "bob", Assignee: "user:bob"},
		executionverbs.CancelDecision{Decision: d.ID, Tenant: d.Tenant, User: "bob", As: []string{"group:lead"}},
	} {
		require.Equal(t, reason.NotAssignee, do[executionverbs.DecisionResult](w, c).Refusal.Reason.Code())
	}
	require.Nil(t, do[executionverbs.DecisionResult](w, executionverbs.ReassignDecision{Decision: d.ID, Tenant: d.Tenant, User: "cid", As: []string{"role:lead"}, Assignee: "user:bob"}).Refusal)
	require.Nil(t, do[executionverbs.DecisionResult](w, executionverbs.CancelDecision{Decision: d.ID, Tenant: d.Tenant, User: "eve", Any: true}).Refusal)
}

// The context of an earlier gate is not kept: a job may ask often.
func TestGate_earlierOnesShrink(t *testing.T) {
	w, id := gated(t, func(d *executions.Decision) { d.Context, d.Options[0].Label = []byte("seen"), "Go on" })
	w.stops(id)
	require.Nil(t, w.answer(w.gates(id)[0], "go").Refusal)
	require.Equal(t, "seen", string(w.gates(id)[0].Context))
	w.place(id, "n1")
	w.run(id)
	require.Equal(t, 1, w.reach(id, "second").Applied)
	first := w.gates(id)[0]
	require.Empty(t, first.Context)
	require.Empty(t, first.Options[0].Label)
	require.True(t, first.Passed())
}

// A text that is cut stays valid, so that it can be sent.
func TestDecision_textsAreCutBetweenCharacters(t *testing.T) {
	w, id := gated(t, func(d *executions.Decision) { d.Prompt = strings.Repeat("x", executions.MaxText-1) + "é" })
	require.Equal(t, strings.Repeat("x", executions.MaxText-1), w.gates(id)[0].Prompt)
	e := w.start(w.core("asks"))
	q := aQuestion(1)
	q.Ask.Prompt = strings.Repeat("x", executions.MaxText-1) + "é"
	w.advance(e, q)
	d, _ := w.m.View().Decision(w.execution(e).Waits[0].Decision)
	require.True(t, utf8.ValidString(d.Prompt))
}

func TestGate_isBounded(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	id := w.submit(oneGPU())
	for i := range executions.MaxGates {
		w.place(id, "n1")
		w.run(id)
		require.Equal(t, 1, w.reach(id, string(rune('A'+i))).Applied)
		w.stops(id)
		require.Nil(t, w.answer(w.gates(id)[i], "go").Refusal)
	}
	w.place(id, "n1")
	w.run(id)
	require.Zero(t, w.reach(id, "more").Applied)
	require.Zero(t, w.reach(id, "").Applied)
}

func TestGate_belowItsLevelIsLeftOut(t *testing.T) {
	c, err := jobverbs.ReportTasks{Reports: []jobverbs.TaskReport{{Kind: jobverbs.ReportGate}, {Kind: jobverbs.ReportPhase}}}.AtLevel(level.Released)
	require.NoError(t, err)
	require.Equal(t, []jobverbs.TaskReport{{Kind: jobverbs.ReportPhase}}, c.(jobverbs.ReportTasks).Reports)
	var _ kernel.Leveled = jobverbs.ReportTasks{}
}
