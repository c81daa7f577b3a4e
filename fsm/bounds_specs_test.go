package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/bounds"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

const week = 7 * 24 * time.Hour

// tickSpecs returns how many specs a Tick dropped.
func (w *world) tickSpecs() int {
	return do[clusterverbs.TickResult](w, clusterverbs.Tick{}).SpecsDropped
}

// settle raises the cluster to the newest level, at which a Tick is due for specs.
func (w *world) settle() {
	w.at = level.Base
	w.raise(level.Newest)
}

func TestBounds_specsOfFinishedJobsGo(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.node("n1", 8)
	over, sweep, lives := w.submit(oneGPU()), w.submit(array(3)), w.submit(oneGPU())
	w.place(sweep.At(0), "n1")
	w.report(sweep.At(0), 0, jobverbs.ReportEnded, exit(1))
	evaluation := oneGPU()
	evaluation.Labels = map[string]string{work.EvaluationLabel: work.EvaluationValue}
	short := w.submit(evaluation)
	evaluation.Spec = make([]byte, bounds.EvaluationSpec+1)
	long := w.submit(evaluation)
	w.later(time.Hour)
	for _, id := range []ident.Job{over, sweep, short, long} {
		require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionCancel}).Refusal)
	}
	ended := w.now
	due, ok := w.m.View().NextDue()
	require.True(t, ok)
	for due < ended+int64(week) { // other timers come first
		w.now = due
		w.do(clusterverbs.Tick{})
		due, ok = w.m.View().NextDue()
		require.True(t, ok)
	}
	require.Equal(t, ended+int64(week), due)
	w.now = due - 1
	require.Zero(t, w.tickSpecs())
	require.NotEmpty(t, w.job(over).Spec)

	w.now = due
	require.Equal(t, 3, w.tickSpecs())
	for name, id := range map[string]ident.Job{"a job": over, "an array": sweep, "an element": sweep.At(0), "an element without a row": sweep.At(1), "a large evaluation": long} {
		j, ok := w.m.View().Find(id)
		require.True(t, ok, name)
		require.Empty(t, j.Spec, name)
		require.True(t, j.SpecDropped, name)
		r := do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionRetry, Spec: []byte("new")})
		require.Equal(t, kernel.CodeFailedPrecondition, r.Refusal.Code, name)
		require.Contains(t, words.Of(r.Refusal.Reason), "its request was dropped", name)
	}
	require.Equal(t, w.index-5, w.job(over).Revision, "who keeps a copy by the revision must see that it changed")
	for name, id := range map[string]ident.Job{"what waits": lives, "what an evaluation was about": short} {
		require.NotEmpty(t, w.job(id).Spec, name)
		require.False(t, w.job(id).SpecDropped, name)
	}
	require.Zero(t, w.tickSpecs(), "nothing is left")
}

func TestBounds_manySpecsGoInSeveralTicks(t *testing.T) {
	w := newWorld(t)
	w.settle()
	cancels := []kernel.Command{}
	for _, r := range w.fill(3000, oneGPU()) {
		cancels = append(cancels, jobverbs.ControlJob{Job: r.Job, Action: work.ActionCancel})
	}
	w.do(cancels...)
	w.later(week)
	r := do[clusterverbs.TickResult](w, clusterverbs.Tick{})
	require.Equal(t, 2000, r.SpecsDropped)
	require.True(t, r.More)
	r = do[clusterverbs.TickResult](w, clusterverbs.Tick{})
	require.Equal(t, 1000, r.SpecsDropped)
	require.False(t, r.More)
}

func TestBounds_policyOfWhatIsKept(t *testing.T) {
	w := newWorld(t)
	w.settle()
	p := policy.DefaultPolicy()
	p.KeepFinished, p.KeepSpecs = policy.LeastKeepFinished, int64(2*time.Hour)
	put := do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: p})
	require.Nil(t, put.Refusal)
	require.Equal(t, "keep_finished the default -> 100, keep_specs_seconds 604800 -> 7200", put.Changed)
	results := w.fill(policy.LeastKeepFinished+3, oneGPU())
	for _, r := range results {
		w.do(jobverbs.ControlJob{Job: r.Job, Action: work.ActionCancel})
	}
	due, ok := w.m.View().NextDue()
	require.True(t, ok)
	require.LessOrEqual(t, due, w.now+int64(time.Second))
	require.Equal(t, 3, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).Dropped)
	w.later(2*time.Hour - 1)
	require.Zero(t, w.tickSpecs())
	w.later(1)
	require.Equal(t, policy.LeastKeepFinished, w.tickSpecs())

	p.KeepFinished = policy.LeastKeepFinished - 1
	bad := do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: p, Base: put.Policy.Revision})
	require.Equal(t, kernel.CodeInvalidArgument, bad.Refusal.Code)
	p.KeepFinished = 0
	_, err := kernel.Encode(level.Released, queueverbs.PutPolicy{Policy: p})
	require.ErrorContains(t, err, "needs feature level")
}

func TestBounds_specsStayBeforeTheirLevel(t *testing.T) {
	w := newWorld(t)
	w.at = level.Released
	id := w.submit(oneGPU())
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
	w.later(week)
	w.do(clusterverbs.Tick{})
	require.NotEmpty(t, w.job(id).Spec)
	due, any := w.m.View().NextDue()
	require.False(t, any, "no Tick would do anything, and it is due at %d", due)
}
