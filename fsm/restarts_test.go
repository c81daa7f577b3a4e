package fsm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// fail ends the newest attempt of a job with an error, on its node.
func (w *world) fail(id ident.Job, cause v1.ErrorType_Value) {
	w.report(id, 0, jobverbs.ReportEnded, exit(1), failed(cause, "why"))
}

// unlaunched ends the newest attempt of a job before its program was started.
func (w *world) unlaunched(id ident.Job, cause v1.ErrorType_Value) {
	w.report(id, 0, jobverbs.ReportEnded, failed(cause, "why"))
}

func TestRestart_byCause(t *testing.T) {
	all := work.RetryPolicy{On: work.RetryAll}
	tests := map[string]struct {
		retry work.RetryPolicy
		error v1.ErrorType_Value
		want  v1.JobState_Value
	}{
		"a GPU that failed is nobody's fault":  {all, v1.ErrorType_GPU_FAULT, queued},
		"nor is a node that was lost":          {all, v1.ErrorType_NODE_LOST, queued},
		"nor data that could not be fetched":   {all, v1.ErrorType_DATA_FETCH, queued},
		"nor a launch that failed on one node": {all, v1.ErrorType_LAUNCH_FAILED, queued},
		"an exit is the job's own":             {all, v1.ErrorType_EXIT_NONZERO, failedJob},
		"so is lack of memory":                 {all, v1.ErrorType_OOM, failedJob},
		"so is what it cannot read":            {all, v1.ErrorType_DATA_FORMAT, failedJob},
		"so is what it cannot do":              {all, v1.ErrorType_CONFIG, failedJob},
		"so is a loss that is no number":       {all, v1.ErrorType_DIVERGED, failedJob},
		"so is a model that it does not find":  {all, v1.ErrorType_MODEL_NOT_FOUND, failedJob},
		"its own error with a retry left":      {work.RetryPolicy{Max: 1, On: work.RetryAll}, v1.ErrorType_DIVERGED, queued},
		"its own error that may not be tried":  {work.RetryPolicy{Max: 1, On: work.RetryInfrastructure}, v1.ErrorType_MODEL_NOT_FOUND, failedJob},
		"an exit with a retry left":            {work.RetryPolicy{Max: 1, On: work.RetryAll}, v1.ErrorType_EXIT_NONZERO, queued},
		"retry_on without exit":                {work.RetryPolicy{Max: 1, On: work.RetryInfrastructure}, v1.ErrorType_EXIT_NONZERO, failedJob},
		"retry_on without the cause":           {work.RetryPolicy{Max: 9, On: work.RetryExit | work.RetryNodeLost}, v1.ErrorType_GPU_FAULT, failedJob},
		"retry_on without node_lost":           {work.RetryPolicy{Max: 9, On: work.RetryExit}, v1.ErrorType_NODE_LOST, lostJob},
		"what would fail anywhere":             {work.RetryPolicy{Max: 9, On: work.RetryAll}, v1.ErrorType_CWD_MISSING, failedJob},
		"not restartable":                      {work.RetryPolicy{On: work.RetryAll, Never: true}, v1.ErrorType_GPU_FAULT, failedJob},
		"not restartable, and its node lost":   {work.RetryPolicy{On: work.RetryAll, Never: true}, v1.ErrorType_NODE_LOST, lostJob},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			w.node("n2", 8)
			n := oneGPU()
			n.Retry = c.retry
			id := w.submit(n)
			w.runOn(id, "n1")
			w.fail(id, c.error)
			j := w.job(id)
			require.Equal(t, c.want, j.State)
			if c.want != queued {
				require.Equal(t, c.error, j.ErrorType)
				return
			}
			require.Zero(t, j.Held, "the first restart does not wait")
			require.Nil(t, j.Tasks)
			require.Equal(t, []string{"n1"}, j.Past[0].Nodes)
			require.Equal(t, c.error.String()+": why", words.Of(j.Past[0].Reason), "the cause is kept")
			first := j.Token
			require.Greater(t, w.place(id, "n2"), first)
		})
	}
}

// Restarts after a cause of the infrastructure leave max_retries alone.
func TestRestart_countsExitsAlone(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	n := oneGPU()
	n.Retry = work.RetryPolicy{Max: 1, On: work.RetryAll}
	id := w.submit(n)
	for step := int64(1); step <= 5; step++ {
		w.runOn(id, "n1")
		w.report(id, 0, jobverbs.ReportProgress, func(r *jobverbs.TaskReport) { r.Step = step })
		w.fail(id, v1.ErrorType_GPU_FAULT)
		require.Equal(t, queued, w.job(id).State)
		w.later(work.LongestPause)
		w.do(clusterverbs.Tick{})
	}
	w.runOn(id, "n1")
	w.report(id, 0, jobverbs.ReportProgress, func(r *jobverbs.TaskReport) { r.Step = 6 })
	w.fail(id, v1.ErrorType_EXIT_NONZERO)
	require.Equal(t, queued, w.job(id).State)
	require.EqualValues(t, 1, w.job(id).Spent())
	w.later(work.LongestPause)
	w.do(clusterverbs.Tick{})
	w.runOn(id, "n1")
	w.report(id, 0, jobverbs.ReportProgress, func(r *jobverbs.TaskReport) { r.Step = 7 })
	w.fail(id, v1.ErrorType_EXIT_NONZERO)
	require.Equal(t, failedJob, w.job(id).State)
	require.Equal(t, v1.ErrorType_EXIT_NONZERO, w.job(id).ErrorType)
}

// A job whose attempts bring nothing new is ended, whatever ends them.
func TestRestart_noProgress(t *testing.T) {
	step := func(n int64) func(w *world, id ident.Job) {
		return func(w *world, id ident.Job) {
			w.report(id, 0, jobverbs.ReportProgress, func(r *jobverbs.TaskReport) { r.Step = n })
		}
	}
	save := func(w *world, id ident.Job) {
		w.report(id, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) { r.Path, r.Digest = fmt.Sprint("/c/", w.index), "sha256:1" })
	}
	nothing := func(*world, ident.Job) {}
	tests := map[string]struct {
		attempts []func(w *world, id ident.Job)
		want     v1.JobState_Value
	}{
		"nothing at all, three times":          {[]func(*world, ident.Job){nothing, nothing, nothing}, failedJob},
		"nothing at all, twice":                {[]func(*world, ident.Job){nothing, nothing}, queued},
		"a step in between begins again":       {[]func(*world, ident.Job){nothing, step(1), nothing, nothing}, queued},
		"and is followed by three others":      {[]func(*world, ident.Job){nothing, step(1), nothing, nothing, nothing}, failedJob},
		"a checkpoint in between begins again": {[]func(*world, ident.Job){nothing, nothing, save, nothing, nothing}, queued},
		"the same steps over and over":         {[]func(*world, ident.Job){step(80), step(80), step(70), step(80)}, failedJob},
		"one step more each time":              {[]func(*world, ident.Job){step(1), step(2), step(3), step(4), step(5)}, queued},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			id := w.submit(retried(oneGPU(), 0))
			for i, attempt := range c.attempts {
				require.Equal(t, queued, w.job(id).State, "attempt %d", i+1)
				w.later(work.LongestPause)
				w.do(clusterverbs.Tick{})
				w.runOn(id, "n1")
				attempt(w, id)
				w.fail(id, v1.ErrorType_GPU_FAULT)
			}
			j := w.job(id)
			require.Equal(t, c.want, j.State)
			if c.want == queued {
				return
			}
			require.Equal(t, v1.ErrorType_NO_PROGRESS, j.ErrorType)
			require.Contains(t, words.Of(j.ErrorMessage), "3 attempts in a row saved no checkpoint and reported no new step; the last one ended with GPU_FAULT: why")
			require.EqualValues(t, 1, *j.ExitCode)
			// A user who retries it forgets all that.
			require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionRetry}).Refusal)
			require.Zero(t, w.job(id).Streak)
		})
	}
}

// Preemptions and drains say nothing against the job.
func TestRestart_stopsByTheClusterDoNotCount(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(retried(oneGPU(), 0))
	for range 2 * work.MaxFruitless {
		w.runOn(id, "n1")
		w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Force: true})
		w.report(id, 0, jobverbs.ReportEnded, exit(143))
		w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeEnable})
		require.Equal(t, queued, w.job(id).State)
		require.Zero(t, w.job(id).Held)
	}
	require.Zero(t, w.job(id).Streak)
}

func TestRestart_notRestartableEndsWhenTheClusterStopsIt(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	n := oneGPU()
	n.Retry = work.RetryPolicy{On: work.RetryAll, Never: true}
	id := w.submit(n)
	w.runOn(id, "n1")
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Force: true})
	w.report(id, 0, jobverbs.ReportEnded, exit(143))
	j := w.job(id)
	require.Equal(t, v1.JobState_PREEMPTED, j.State)
	require.Equal(t, v1.ErrorType_DRAINED, j.ErrorType)
	require.Contains(t, words.Of(j.ErrorMessage), "not restartable")
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeEnable})
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionRetry}).Refusal, "a user may still say so")
}

func TestRestart_waitsLongerEachTime(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(retried(oneGPU(), 0))
	for i, want := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300} {
		w.runOn(id, "n1")
		w.report(id, 0, jobverbs.ReportProgress, func(r *jobverbs.TaskReport) { r.Step = int64(i + 1) })
		w.fail(id, v1.ErrorType_GPU_FAULT)
		j := w.job(id)
		if want == 0 {
			require.Zero(t, j.Held)
			require.Equal(t, "restarted after GPU_FAULT: why", words.Of(j.Reason))
			continue
		}
		require.Equal(t, work.HoldBackoff, j.Held)
		require.Equal(t, fmt.Sprintf("restarts in %d s after GPU_FAULT: why", want), words.Of(j.Reason))
		w.later(want*time.Second - 1)
		w.do(clusterverbs.Tick{})
		require.False(t, w.job(id).Waiting())
		w.later(1)
		due, any := w.m.View().NextDue()
		require.True(t, any)
		require.Equal(t, w.now, due)
		require.Equal(t, 1, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).Released)
		require.True(t, w.job(id).Waiting())
	}
	// An attempt that ran for long shows that the job can.
	w.runOn(id, "n1")
	w.report(id, 0, jobverbs.ReportProgress, func(r *jobverbs.TaskReport) { r.Step = 100 })
	w.later(10 * time.Minute)
	w.fail(id, v1.ErrorType_GPU_FAULT)
	require.Zero(t, w.job(id).Held)
}

// A pause before a restart ends when a user resumes the job, and is dropped when a user pauses or cancels it.
func TestRestart_usersNeedNotWait(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(retried(oneGPU(), 0))
	for range 2 {
		w.runOn(id, "n1")
		w.fail(id, v1.ErrorType_GPU_FAULT)
	}
	require.Equal(t, work.HoldBackoff, w.job(id).Held)
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionPause}).Refusal)
	require.Zero(t, w.job(id).Held)
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionResume}).Refusal)
	require.True(t, w.job(id).Waiting())
}

// Another node may launch a program that one node cannot; what two cannot is a mistake in the request.
func TestRestart_aLaunchIsTriedOnAnotherNode(t *testing.T) {
	for _, cause := range []v1.ErrorType_Value{v1.ErrorType_LAUNCH_FAILED, v1.ErrorType_MODEL_NOT_FOUND, v1.ErrorType_DATA_FETCH} {
		t.Run(cause.String(), func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			alone := w.submit(retried(oneGPU(), 0))
			w.place(alone, "n1")
			w.unlaunched(alone, cause)
			require.Equal(t, failedJob, w.job(alone).State, "there is no other node")
			require.Equal(t, cause, w.job(alone).ErrorType)

			w.node("n2", 8)
			w.node("n3", 8)
			id := w.submit(retried(oneGPU(), 0))
			w.place(id, "n1")
			w.unlaunched(id, cause)
			require.True(t, w.job(id).Waiting(), "at once")
			require.True(t, w.job(id).Avoids("n1"))
			w.place(id, "n2")
			w.unlaunched(id, cause)
			require.Equal(t, failedJob, w.job(id).State)
			require.Equal(t, cause, w.job(id).ErrorType)
		})
	}
}

// A node that cannot start a task costs its job nothing, however often, and even if there is no other node.
func TestRestart_aNodeThatIsUnfitCostsNothing(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(retried(oneGPU(), 0))
	for range 5 * work.MaxFruitless {
		w.place(id, "n1")
		w.unlaunched(id, v1.ErrorType_NODE_UNFIT)
		require.Equal(t, queued, w.job(id).State)
		require.True(t, w.job(id).Avoids("n1"))
		w.later(work.LongestPause)
		w.do(clusterverbs.Tick{})
	}
	require.Zero(t, w.job(id).Spent())
	require.Zero(t, w.job(id).Streak.Fruitless)
	w.place(id, "n1")
	w.unlaunched(id, v1.ErrorType_NODE_UNFIT)
	require.Positive(t, w.job(id).Streak.After, "it waits longer and longer")
}

func TestRestart_aGangIsNotFailedForANodeThatIsUnfit(t *testing.T) {
	for never, want := range map[bool]v1.JobState_Value{false: queued, true: failedJob} {
		w := newWorld(t)
		w.node("n1", 8)
		w.node("n2", 8)
		spec := retried(oneGPU(), 0)
		spec.Shape.Nodes, spec.Retry.Never = 2, never
		id := w.submit(spec)
		w.place(id, "n1", "n2")
		w.report(id, 1, jobverbs.ReportRunning, func(*jobverbs.TaskReport) {})
		w.unlaunched(id, v1.ErrorType_NODE_UNFIT)
		require.Equal(t, v1.StopReason_GANG, w.job(id).Stop)
		w.report(id, 1, jobverbs.ReportEnded, exit(143))
		require.Equal(t, want, w.job(id).State, "what must not start twice ran on the other node")
		require.False(t, w.job(id).Avoids("n2"))
	}
	w := newWorld(t)
	w.node("n1", 8)
	spec := retried(oneGPU(), 0)
	spec.Retry.Never = true
	id := w.submit(spec)
	w.place(id, "n1")
	w.unlaunched(id, v1.ErrorType_NODE_UNFIT)
	require.Equal(t, queued, w.job(id).State, "nothing has run")
}

func TestNode_isUnfitWhileItsAgentSaysSo(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	full := reason.Text("the disk is full")
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeFitness, Reason: full})
	require.Equal(t, v1.NodeState_UNFIT, w.nodeState("n1"))
	require.Equal(t, full, w.row("n1").Unfit)
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain})
	require.Equal(t, v1.NodeState_DRAINED, w.nodeState("n1"), "what an operator wants comes first")
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeEnable})
	require.Equal(t, v1.NodeState_UNFIT, w.nodeState("n1"))
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeFitness})
	require.Equal(t, v1.NodeState_READY, w.nodeState("n1"))
}

// A job that has trained before had its data then: a source that does not answer now is asked again.
func TestRestart_dataThatWasThereIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(retried(oneGPU(), 0))
	w.runOn(id, "n1")
	w.report(id, 0, jobverbs.ReportProgress, func(r *jobverbs.TaskReport) { r.Step = 10 })
	w.fail(id, v1.ErrorType_GPU_FAULT)
	w.place(id, "n1")
	w.unlaunched(id, v1.ErrorType_DATA_FETCH)
	require.Equal(t, queued, w.job(id).State)
}

// TestCancel_onANodeThatIsAway: the owner of a job that is out of reach need not wait for its node.
func TestCancel_onANodeThatIsAway(t *testing.T) {
	cancel := func(w *world, id ident.Job, vouch bool) *kernel.Refusal {
		return do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionCancel, Vouch: vouch, Actor: &access.Actor{Tenant: "acme", User: "ada"}}).Refusal
	}
	w := cluster(t)
	n := gang(2)
	n.Retry = work.RetryPolicy{On: work.RetryAll, Never: true}
	id := w.submit(n)
	w.place(id, "n1", "n2")
	w.run(id)
	r := cancel(w, id, true)
	require.NotNil(t, r)
	require.Contains(t, words.Of(r.Reason), "cancel it without vouching")
	w.away("n1")
	require.Nil(t, cancel(w, id, false))
	require.Equal(t, v1.StopReason_CANCEL, w.job(id).Stop)
	w.report(id, 1, jobverbs.ReportEnded, exit(143))
	require.Equal(t, running, w.job(id).State, "rank 0 may be alive")
	require.Nil(t, cancel(w, id, true))
	j := w.job(id)
	require.Equal(t, canceled, j.State)
	require.Empty(t, j.Awaits, "nothing is waited for")
	require.Zero(t, w.m.View().LeaseCount())
	// Only what is out of reach is vouched for.
	both := w.submit(n)
	w.place(both, "n2", "n3")
	w.run(both)
	w.away("n3")
	require.Nil(t, cancel(w, both, true))
	require.Equal(t, running, w.job(both).State, "rank 0 can be asked to stop")
	w.report(both, 0, jobverbs.ReportEnded, exit(143))
	require.Equal(t, canceled, w.job(both).State)
}

// A task that would have been replaced is dead when its lease is over and another node could have taken it over: a job that
// was canceled meanwhile ends then, by the same votes.
func TestCancel_endsWithTheDeclaration(t *testing.T) {
	w := cluster(t)
	id := w.submit(retried(oneGPU(), 0))
	w.runOn(id, "n1")
	w.away("n1")
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionCancel}).Refusal)
	require.Equal(t, running, w.job(id).State)
	w.lose("n1", "n2")
	require.Equal(t, canceled, w.job(id).State)
}
