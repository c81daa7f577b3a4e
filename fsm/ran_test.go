package fsm_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

func TestStem(t *testing.T) {
	for name, want := range map[string]string{
		"train": "train", "nightly-2026-01-31": "nightly", "nightly": "nightly", "run_7": "run", "a1b2": "a1b", "2026-01-31": "2026-01-31", "": "",
		"llama-3-8b": "llama-3-8b", "v1.2.3": "v", "Lauf 12": "Lauf",
	} {
		require.Equal(t, want, work.Stem(name), name)
	}
}

func TestRanLike(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	run := func(tenant, name string, code int32) ident.Job {
		n := oneGPU()
		n.Tenant, n.Name = tenant, name
		id := w.submit(n)
		w.place(id, "n1")
		w.run(id)
		w.report(id, 0, jobverbs.ReportEnded, func(r *jobverbs.TaskReport) { r.ExitCode = &code })
		return id
	}
	run("before", "train-0", 0) // the tenant that is listed before it
	first, second := run("acme", "train-1", 0), run("acme", "train-2", 0)
	run("acme", "trainer-1", 0)
	run("umbrella", "train-3", 0)
	failed := run("acme", "train-4", 1)
	waiting := oneGPU()
	waiting.Name = "train-5"
	w.submit(waiting)
	like := func(m *fsm.Machine) []ident.Job { return ids(slices.Collect(m.View().RanLike("acme", "train-77"))) }
	require.Equal(t, []ident.Job{second, first}, like(w.m))
	require.Empty(t, slices.Collect(w.m.View().RanLike("nobody", "train-1")))

	// Jobs that succeed only in a later attempt do not count.
	w.do(jobverbs.ControlJob{Tenant: "acme", Job: failed, Action: work.ActionRetry})
	w.place(failed, "n1")
	w.run(failed)
	w.report(failed, 0, jobverbs.ReportEnded, func(r *jobverbs.TaskReport) { r.ExitCode = new(int32) })
	require.Equal(t, v1.JobState_SUCCEEDED, w.job(failed).State)
	require.Equal(t, []ident.Job{second, first}, like(w.m))

	again := fsm.New()
	require.NoError(t, again.Restore(w.image()))
	require.Equal(t, like(w.m), like(again))
	require.Empty(t, fsm.Check(again.View()))

	w.do(clusterverbs.Configure{KeepFinished: 1})
	for range 4 {
		w.later(1e12)
		w.do(clusterverbs.Tick{})
	}
	require.Empty(t, like(w.m))
}
