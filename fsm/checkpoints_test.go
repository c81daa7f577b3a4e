package fsm_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// saves reports a complete checkpoint of rank 0 and returns its id.
func (w *world) saves(id ident.Job, step int64) ident.Checkpoint {
	r := w.report(id, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) { *r = w.saved(*r, step) })
	require.Len(w.t, r.Checkpoints, 1)
	return r.Checkpoints[0]
}

// saved makes a report of the checkpoint of a step.
func (w *world) saved(r jobverbs.TaskReport, step int64) jobverbs.TaskReport {
	r.Path, r.Digest, r.Step = fmt.Sprintf("/c/%d", step), fmt.Sprintf("sha256:%d", step), step
	return r
}

func (w *world) resumePoints(id ident.Job) []ident.Checkpoint {
	var ids []ident.Checkpoint
	for _, c := range w.m.View().ResumePoints(w.job(id)) {
		ids = append(ids, c.ID)
	}
	return ids
}

func (w *world) runOn(id ident.Job, node string) {
	w.place(id, node)
	w.run(id)
}

// breaks ends an attempt by a fault that another follows, and waits until that one may start.
func (w *world) breaks(id ident.Job) {
	w.report(id, 0, jobverbs.ReportEnded, failed(v1.ErrorType_GPU_FAULT, "XID 79"))
	require.Equal(w.t, queued, w.job(id).State)
	w.later(work.LongestPause)
	w.do(clusterverbs.Tick{})
}

func TestCheckpoint_needsTheDigestOfItsManifest(t *testing.T) {
	w := cluster(t)
	id := w.submit(oneGPU())
	w.runOn(id, "n1")
	r := w.report(id, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) { r.Path, r.Step = "/c/1", 1 })
	require.Equal(t, jobverbs.ReportResult{Incomplete: 1}, r)
	require.EqualValues(t, 1, w.m.View().Incomplete())
	require.Zero(t, w.m.View().Fenced(), "it came from the holder of the lease")
	require.Zero(t, w.job(id).LastCheckpoint)
	require.Empty(t, w.resumePoints(id))
	whole := w.saves(id, 1)
	require.Equal(t, whole, w.job(id).LastCheckpoint)
	require.Equal(t, []ident.Checkpoint{whole}, w.resumePoints(id))
}

func TestCheckpoint_notFromAReplacedAttempt(t *testing.T) {
	w, id, ref := lostOn(t)
	late := jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{
		{Job: id, Attempt: ref.Attempt, Token: ref.Token, Kind: jobverbs.ReportCheckpoint, Path: "/c/1", Digest: "sha256:1"},
		{Job: id, Attempt: ref.Attempt, Token: ref.Token, Kind: jobverbs.ReportProgress, Step: 9},
	}}
	for _, state := range []string{"while it waits", "while it runs elsewhere", "after it has succeeded"} {
		fenced := w.m.View().Fenced()
		require.Equal(t, jobverbs.ReportResult{Stale: 2}, do[jobverbs.ReportResult](w, late), state)
		require.Equal(t, fenced+2, w.m.View().Fenced(), state)
		require.Empty(t, w.resumePoints(id), state)
		require.Zero(t, w.job(id).Progress, state)
		switch state {
		case "while it waits":
			w.runOn(id, "n2")
		case "while it runs elsewhere":
			w.report(id, 0, jobverbs.ReportEnded, exit(0))
		}
	}
}

func TestResumePoints_areTheNewestOfTheJobsOwn(t *testing.T) {
	w := cluster(t)
	other := w.submit(oneGPU())
	w.runOn(other, "n4")
	foreign := w.saves(other, 1)
	n := retried(oneGPU(), 9)
	n.ResumeFrom = foreign
	id := w.submit(n)
	require.Equal(t, []ident.Checkpoint{foreign}, w.resumePoints(id), "where it was told to begin")
	var saved []ident.Checkpoint
	for i := range int64(4) {
		w.runOn(id, "n1")
		saved = append(saved, w.saves(id, 2*i), w.saves(id, 2*i+1))
		w.breaks(id)
	}
	require.Equal(t, []ident.Checkpoint{saved[7], saved[6], saved[5], saved[4], saved[3]}, w.resumePoints(id))
	require.Equal(t, saved[7], w.job(id).ResumeFrom)

	// The checkpoint that a user chooses comes before all that were there then, and stays chosen.
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionPause})
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionResume, Checkpoint: saved[2]})
	require.Equal(t, []ident.Checkpoint{saved[2]}, w.resumePoints(id))
	w.runOn(id, "n1")
	w.breaks(id)
	require.Equal(t, saved[2], w.job(id).ResumeFrom, "nothing was saved since")
	require.Equal(t, []ident.Checkpoint{saved[2]}, w.resumePoints(id))
	w.runOn(id, "n1")
	newer := w.saves(id, 99)
	w.breaks(id)
	require.Equal(t, newer, w.job(id).ResumeFrom)
	w.runOn(id, "n1")
	newest := w.saves(id, 100)
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionPause})
	w.report(id, 0, jobverbs.ReportEnded, exit(0))
	require.Equal(t, []ident.Checkpoint{newest, newer}, w.resumePoints(id), "the newest one is not listed twice")
	// One that is gone is passed over.
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionResume, Checkpoint: saved[0]})
	require.Equal(t, []ident.Checkpoint{saved[0]}, w.resumePoints(id))
	gone := *w.job(id)
	gone.ResumeFrom = 12345
	require.Empty(t, w.m.View().ResumePoints(&gone))
}
