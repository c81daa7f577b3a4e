package fsm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mindcoordinator/mind/fsm/work/keys"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

func (w *world) trySubmit(change func(*jobverbs.NewJob)) jobverbs.SubmitResult {
	n := oneGPU()
	change(&n)
	return do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{n}}).Results[0]
}

func TestSubmit_refusals(t *testing.T) {
	tests := map[string]struct {
		change func(*jobverbs.NewJob)
		says   string
	}{
		"unknown queue":         {func(n *jobverbs.NewJob) { n.Queue = "nope" }, "the queues are default, fast"},
		"unknown GPU type":      {func(n *jobverbs.NewJob) { n.Shape.GPUType = "A100" }, "the types there are: H100"},
		"priority":              {func(n *jobverbs.NewJob) { n.Priority = 11 }, "0 to 10"},
		"more GPUs than a node": {func(n *jobverbs.NewJob) { n.Shape.GPUs = 65 }, "a node can have 64"},
		"GPUs and a fraction":   {func(n *jobverbs.NewJob) { n.Shape.FractionMilli = 500 }, "not for both"},
		"a whole fraction":      {func(n *jobverbs.NewJob) { n.Shape = work.Shape{FractionMilli: 1000} }, "less than 1"},
		"a level of domains":    {func(n *jobverbs.NewJob) { n.Shape.Between = domains.Same }, "needs a level"},
		"a kind of domains":     {func(n *jobverbs.NewJob) { n.Shape.Between = 9; n.Shape.Level = "l" }, "needs a level"},
		"segments of nothing":   {func(n *jobverbs.NewJob) { n.Shape.Segment = 1 }, "share the nodes equally"},
		"unequal segments": {func(n *jobverbs.NewJob) {
			n.Shape = work.Shape{Nodes: 3, Between: domains.Same, Level: "l", Segment: 2}
		}, "share the nodes equally"},
		"topology":           {func(n *jobverbs.NewJob) { n.Shape.Topology = 3 }, "any, nvlink or single_node"},
		"single node of two": {func(n *jobverbs.NewJob) { n.Shape.Nodes, n.Shape.Topology = 2, work.TopologySingleNode }, "contradicts 2 nodes"},
		"absurd CPUs":        {func(n *jobverbs.NewJob) { n.Shape.CPUs = 1 << 31 }, "no node has so many CPUs"},
		"retry causes":       {func(n *jobverbs.NewJob) { n.Retry.On = 128 }, "unknown cause"},
		"unknown dependency": {func(n *jobverbs.NewJob) { n.Dependencies = []work.Dependency{{Job: 7}} }, "no job job_7"},
		"unknown condition":  {func(n *jobverbs.NewJob) { n.Dependencies = []work.Dependency{{Job: 1 << 16 * 3, When: 9}} }, "ok, fail or any"},
		"unknown checkpoint": {func(n *jobverbs.NewJob) { n.ResumeFrom = 7 }, "no checkpoint ckpt_7"},
		"a long key":         {func(n *jobverbs.NewJob) { n.Key = string(make([]byte, keys.MaxLength+1)) }, "at most 255"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "fast"}})
			require.Equal(t, ident.Job(1<<16*3), w.submit(oneGPU()))
			before := w.m.View()
			r := w.trySubmit(c.change)
			require.NotNil(t, r.Refusal)
			require.Equal(t, kernel.CodeInvalidArgument, r.Refusal.Code)
			require.Contains(t, words.Of(r.Refusal.Reason), c.says)
			require.Equal(t, before.Hash(), w.m.View().Hash(), "a refusal changes nothing")
		})
	}
}

func TestSubmit_gpuTypeIsTakenOnTrustWhileThereIsNoNode(t *testing.T) {
	w := newWorld(t)
	require.Nil(t, w.trySubmit(func(n *jobverbs.NewJob) { n.Shape.GPUType = "B200" }).Refusal)
	w.node("n1", 1)
	require.NotNil(t, w.trySubmit(func(n *jobverbs.NewJob) { n.Shape.GPUType = "B200" }).Refusal)
	r := w.trySubmit(func(n *jobverbs.NewJob) { n.Shape.GPUType = "h100" })
	require.Equal(t, "H100", w.job(r.Job).Shape.GPUType, "spelled as the nodes do, so that classes do not split")
}

func TestSubmit_oneRefusalDoesNotKeepTheOthersOut(t *testing.T) {
	w := newWorld(t)
	bad := oneGPU()
	bad.Queue = "nope"
	r := do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{oneGPU(), bad, oneGPU()}}).Results
	require.Equal(t, ident.Job(1<<16), r[0].Job)
	require.NotNil(t, r[1].Refusal)
	require.Equal(t, ident.Job(1<<16+1), r[2].Job)
}

func TestSubmit_idempotency(t *testing.T) {
	w := newWorld(t)
	key := func(k string, print uint64) func(*jobverbs.NewJob) {
		return func(n *jobverbs.NewJob) { n.Key, n.Fingerprint = k, print }
	}
	first := w.trySubmit(key("k", 1))
	require.False(t, first.Duplicate)
	again := w.trySubmit(key("k", 1))
	require.Equal(t, jobverbs.SubmitResult{Job: first.Job, State: queued, Duplicate: true}, again)
	other := w.trySubmit(key("k", 2))
	require.Equal(t, kernel.CodeAlreadyExists, other.Refusal.Code)
	neighbour := w.trySubmit(func(n *jobverbs.NewJob) { n.Tenant, n.Key, n.Fingerprint = "umbrella", "k", 2 })
	require.Nil(t, neighbour.Refusal, "keys are a tenant's own")
	require.NotEqual(t, first.Job, neighbour.Job)
	control := do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: first.Job, Action: work.ActionCancel, Key: "k", Fingerprint: 1})
	require.Equal(t, kernel.CodeAlreadyExists, control.Refusal.Code, "a submit's key is not a cancel's")

	w.later(keys.Lifetime - 1)
	require.True(t, w.trySubmit(key("k", 1)).Duplicate)
	w.later(1)
	// Expired, though no Tick has come by.
	require.NotEqual(t, first.Job, w.trySubmit(key("k", 1)).Job)
}

func TestSubmit_mintedKeysExpireSooner(t *testing.T) {
	for _, change := range []func(*jobverbs.NewJob){
		func(n *jobverbs.NewJob) { n.Key = "auto:1" },
		func(n *jobverbs.NewJob) { n.Key, n.AutoKey = "minted", true },
	} {
		w := newWorld(t)
		first := w.trySubmit(change)
		w.later(keys.AutoLifetime)
		require.Equal(t, 1, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).KeysExpired)
		require.NotEqual(t, first.Job, w.trySubmit(change).Job)
	}
}

func TestControl_isIdempotentByKey(t *testing.T) {
	w := newWorld(t)
	id, other := w.submit(oneGPU()), w.submit(oneGPU())
	retry := jobverbs.ControlJob{Job: id, Action: work.ActionRetry, Key: "r", Fingerprint: 1}
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
	require.False(t, do[jobverbs.ControlResult](w, retry).Duplicate)
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
	again := do[jobverbs.ControlResult](w, retry)
	require.True(t, again.Duplicate)
	require.Nil(t, again.Refusal)
	require.Equal(t, canceled, w.job(id).State, "a repeated retry does not retry again")
	retry.Job = other
	require.Equal(t, kernel.CodeAlreadyExists, do[jobverbs.ControlResult](w, retry).Refusal.Code)
}

func TestHold_untilItsTime(t *testing.T) {
	w := newWorld(t)
	at := w.now + int64(time.Hour)
	r := w.trySubmit(func(n *jobverbs.NewJob) { n.NotBefore = at })
	require.False(t, w.job(r.Job).Waiting())
	require.NotEmpty(t, w.job(r.Job).Reason)
	held := func(tenant string) [3]int {
		v := w.m.View()
		return [3]int{v.QueueHeld(work.DefaultQueue), v.QueueHeldOf(tenant, work.DefaultQueue), v.HeldOf(tenant)}
	}
	require.Equal(t, [3]int{1, 1, 1}, held(w.job(r.Job).Tenant))
	require.Equal(t, [3]int{1, 0, 0}, held("another"))
	due, _ := w.m.View().NextDue()
	require.Equal(t, at, due)
	w.do(clusterverbs.Tick{})
	require.False(t, w.job(r.Job).Waiting())
	w.later(time.Hour)
	require.Equal(t, 1, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).Released)
	require.True(t, w.job(r.Job).Waiting())
	require.Equal(t, [3]int{}, held(w.job(r.Job).Tenant))
}

func TestHold_untilItsDependencies(t *testing.T) {
	for _, c := range []struct {
		when work.Condition
		exit int32
		want v1.JobState_Value
	}{
		{work.AfterOK, 0, queued},
		{work.AfterOK, 1, canceled},
		{work.AfterFail, 0, canceled},
		{work.AfterFail, 1, queued},
		{work.AfterAny, 0, queued},
		{work.AfterAny, 1, queued},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			first := w.submit(oneGPU())
			after := func(id ident.Job, when work.Condition) func(*jobverbs.NewJob) {
				return func(n *jobverbs.NewJob) { n.Dependencies = []work.Dependency{{Job: id, When: when}} }
			}
			second := w.trySubmit(after(first, c.when)).Job
			third := w.trySubmit(after(second, work.AfterOK)).Job
			require.False(t, w.job(second).Waiting())
			w.place(first, "n1")
			w.report(first, 0, jobverbs.ReportEnded, exit(c.exit))
			require.Equal(t, c.want, w.job(second).State)
			if c.want == queued {
				require.True(t, w.job(second).Waiting())
				require.False(t, w.job(third).Waiting())
				return
			}
			require.Equal(t, canceled, w.job(third).State, "and so on down the line")
			late := w.trySubmit(after(first, c.when))
			require.Equal(t, canceled, late.State)
		})
	}
}

func TestTick_timeLimit(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	limited := func() ident.Job {
		r := w.trySubmit(func(n *jobverbs.NewJob) { n.MaxRuntime, n.Grace = int64(time.Hour), int64(time.Minute) })
		w.later(2 * time.Hour)
		require.Zero(t, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).TimeLimits, "waiting does not count")
		w.place(r.Job, "n1")
		w.run(r.Job)
		w.later(time.Hour - time.Minute - time.Second)
		require.Zero(t, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).TimeLimits)
		return r.Job
	}
	job := limited()
	w.later(2 * time.Second)
	require.Equal(t, 1, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).TimeLimits)
	require.Equal(t, v1.StopReason_TIME_LIMIT, w.job(job).Stop)
	require.Equal(t, int64(59*time.Second), w.job(job).StopGrace, "what is left until the limit")
	require.Equal(t, reason.New(reason.TimeLimitNear, int64(59*time.Second)), w.job(job).Reason)
	require.Zero(t, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).TimeLimits)
	w.report(job, 0, jobverbs.ReportEnded, exit(75))
	require.Equal(t, failedJob, w.job(job).State)
	require.Equal(t, v1.ErrorType_TIME_LIMIT, w.job(job).ErrorType)

	job = limited()
	w.later(time.Second)
	w.do(clusterverbs.Tick{})
	w.report(job, 0, jobverbs.ReportEnded, exit(0))
	require.Equal(t, succeededJob, w.job(job).State, "it came to its own end before the limit")

	job = limited()
	w.later(time.Hour)
	w.do(clusterverbs.Tick{})
	require.Zero(t, w.job(job).StopGrace, "the Tick is late: there is no time left")
	require.Equal(t, reason.New(reason.TimeLimitReached), w.job(job).Reason)
}

func TestTick_timeLimitWithoutNotice(t *testing.T) {
	for name, c := range map[string]struct {
		notice time.Duration
		asked  time.Duration // after the start
		grace  time.Duration
	}{
		"none":                 {-1, time.Hour, 0},
		"given":                {5 * time.Minute, 55 * time.Minute, 5 * time.Minute},
		"longer than the time": {2 * time.Hour, 0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			r := w.trySubmit(func(n *jobverbs.NewJob) {
				n.MaxRuntime, n.Grace, n.Notice = int64(time.Hour), int64(time.Minute), int64(c.notice)
			})
			w.place(r.Job, "n1")
			w.run(r.Job)
			due, any := w.m.View().NextDue()
			require.True(t, any)
			require.Equal(t, c.asked, time.Duration(due-w.job(r.Job).StartedAt))
			w.now = due
			w.do(clusterverbs.Tick{})
			require.Equal(t, v1.StopReason_TIME_LIMIT, w.job(r.Job).Stop)
			require.InDelta(t, c.grace, time.Duration(w.job(r.Job).StopGrace), float64(time.Second))
		})
	}
	require.Equal(t, int64(30e9), work.DefaultNotice(3600e9, 30e9))
	require.Equal(t, int64(2e9), work.DefaultNotice(5e9, 30e9), "at most half of the limit")
	require.Equal(t, int64(-1), work.DefaultNotice(1e9, 30e9))
}

func TestTick_dropsTheOldestFinishedJobs(t *testing.T) {
	w := newWorld(t)
	w.do(clusterverbs.Configure{KeepFinished: 2})
	var ids []ident.Job
	for i := range 5 {
		r := w.trySubmit(func(n *jobverbs.NewJob) { n.Key = fmt.Sprint("k", i) })
		ids = append(ids, r.Job)
		w.later(time.Second)
		w.do(jobverbs.ControlJob{Job: r.Job, Action: work.ActionCancel})
	}
	waiting := w.submit(oneGPU())
	_, due := w.m.View().NextDue()
	require.True(t, due)
	require.Equal(t, 3, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).Dropped)
	for i, id := range ids {
		_, ok := w.m.View().Job(id)
		require.Equal(t, i >= 3, ok)
	}
	w.job(waiting)
	// The key outlives the job: a repeat still makes no second one.
	again := w.trySubmit(func(n *jobverbs.NewJob) { n.Key = "k0" })
	require.Equal(t, jobverbs.SubmitResult{Job: ids[0], Duplicate: true}, again)
}

func TestQueues_deletion(t *testing.T) {
	w := newWorld(t)
	w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "fast", Weight: 2}})
	r := w.trySubmit(func(n *jobverbs.NewJob) { n.Queue = "fast" })
	for name, code := range map[string]kernel.Code{"fast": kernel.CodeFailedPrecondition, "default": kernel.CodeFailedPrecondition, "nope": kernel.CodeNotFound} {
		require.Equal(t, code, do[queueverbs.QueueResult](w, queueverbs.DeleteQueue{Name: name}).Refusal.Code, name)
	}
	w.do(jobverbs.ControlJob{Job: r.Job, Action: work.ActionCancel})
	require.Nil(t, do[queueverbs.QueueResult](w, queueverbs.DeleteQueue{Name: "fast"}).Refusal)
	require.Equal(t, kernel.CodeFailedPrecondition, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: r.Job, Action: work.ActionRetry}).Refusal.Code)
}

// A retry asks again for none of the jobs that the first attempt waited for, nor for those that are over.
func TestHold_aRetryWaitsForThoseThatAreNotOver(t *testing.T) {
	w := cluster(t)
	open, over := w.submit(oneGPU()), w.submit(oneGPU())
	w.do(jobverbs.ControlJob{Job: over, Action: work.ActionCancel})
	n := oneGPU()
	n.Dependencies = []work.Dependency{{Job: open, When: work.AfterOK}, {Job: over, When: work.AfterAny}}
	for _, waits := range []bool{true, false} {
		id := w.submit(n)
		w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
		w.do(jobverbs.ControlJob{Job: id, Action: work.ActionRetry, Waits: waits})
		require.Equal(t, waits, w.job(id).Held == work.HoldDependency)
		if waits {
			require.Equal(t, n.Dependencies[:1], w.job(id).Dependencies)
		}
	}
	old := jobverbs.ControlJob{Action: work.ActionRetry, Waits: true}
	before, err := old.AtLevel(level.Released)
	require.NoError(t, err)
	require.False(t, before.(jobverbs.ControlJob).Waits, "older replicas do not know it")
}
