package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work/checkpointverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

func TestDeleteCheckpoint(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	n := oneGPU()
	n.Tenant = "acme"
	id := w.submit(n)
	token := w.place(id, "n1")
	report := func(path string) ident.Checkpoint {
		r := do[jobverbs.ReportResult](w, jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{
			{Job: id, Attempt: 1, Token: token, Kind: jobverbs.ReportCheckpoint, Path: path, Digest: "d", Step: 1},
		}})
		require.Len(t, r.Checkpoints, 1)
		return r.Checkpoints[0]
	}
	first, second := report("/a"), report("/b")
	require.Equal(t, kernel.CodeNotFound, do[checkpointverbs.CheckpointResult](w, checkpointverbs.DeleteCheckpoint{Tenant: "evil", ID: first}).Refusal.Code)
	refused := do[checkpointverbs.CheckpointResult](w, checkpointverbs.DeleteCheckpoint{Tenant: "acme", ID: second}).Refusal
	require.Equal(t, kernel.CodeFailedPrecondition, refused.Code, "the job would go on from it")
	require.Nil(t, do[checkpointverbs.CheckpointResult](w, checkpointverbs.DeleteCheckpoint{Tenant: "acme", ID: first}).Refusal)
	_, ok := w.m.View().Checkpoint(first)
	require.False(t, ok)

	third := report("/c")
	zero := int32(0)
	do[jobverbs.ReportResult](w, jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{{Job: id, Attempt: 1, Token: token, Kind: jobverbs.ReportEnded, ExitCode: &zero}}})
	require.True(t, w.job(id).Terminal())
	require.Equal(t, third, w.job(id).LastCheckpoint)
	require.Nil(t, do[checkpointverbs.CheckpointResult](w, checkpointverbs.DeleteCheckpoint{Tenant: "acme", ID: third}).Refusal)
	require.Equal(t, second, w.job(id).LastCheckpoint, "the newest that is left")
	require.Nil(t, do[checkpointverbs.CheckpointResult](w, checkpointverbs.DeleteCheckpoint{Tenant: "acme", ID: second}).Refusal)
	require.Zero(t, w.job(id).LastCheckpoint)
	require.Equal(t, kernel.CodeNotFound, do[checkpointverbs.CheckpointResult](w, checkpointverbs.DeleteCheckpoint{Tenant: "acme", ID: second}).Refusal.Code)
}
