package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
)

// archivist registers a node whose agent has an archive.
func (w *world) archivist(id string) {
	n := testNode(id, "boot1", 8)
	n.Archive = true
	require.Nil(w.t, do[work.NodeResult](w, work.RegisterNode{Node: n}).Refusal)
}

func (w *world) checkpoint(id ident.Checkpoint) *checkpoints.Checkpoint {
	c, ok := w.m.View().Checkpoint(id)
	require.True(w.t, ok)
	return c
}

// says reports one thing about a checkpoint.
func (w *world) says(node string, r checkpoints.Report) checkpoints.ReportResult {
	return do[checkpoints.ReportResult](w, checkpoints.ReportCheckpoints{Node: node, Reports: []checkpoints.Report{r}})
}

func (w *world) uploads(id ident.Checkpoint, bytes int64) checkpoints.ReportResult {
	return w.says(w.checkpoint(id).Node, checkpoints.Report{ID: id, Kind: checkpoints.ReportUpload, Bytes: bytes})
}

func (w *world) stores(id ident.Checkpoint) checkpoints.ReportResult {
	c := w.checkpoint(id)
	return w.says(c.Node, checkpoints.Report{ID: id, Kind: checkpoints.ReportStored, Bytes: 5, Key: c.ArchiveKey(), Digest: "sha256:content"})
}

func (w *world) pin(id ident.Checkpoint, off bool) checkpoints.Result {
	return do[checkpoints.Result](w, checkpoints.Pin{Tenant: "acme", ID: id, Off: off})
}

// orders says what a node has to do, by checkpoint.
func (w *world) orders(node string) map[ident.Checkpoint][]v1.CheckpointAction_Value {
	out := map[ident.Checkpoint][]v1.CheckpointAction_Value{}
	for _, o := range w.m.View().CheckpointOrders(node) {
		out[o.ID] = append(out[o.ID], o.Action)
	}
	return out
}

// keeping submits a job with a retention, and runs it on a node with an archive.
func (w *world) keeping(r checkpoints.Retention, node string) ident.Job {
	n := retried(oneGPU(), 9)
	n.Retention = r
	id := w.submit(n)
	w.runOn(id, node)
	return id
}

// archived goes on with a job whose checkpoints are uploaded, given up, pinned and deleted.
func archived(w *world) {
	w.archivist("n5")
	id := w.keeping(checkpoints.Retention{Keep: 1, Best: 1, Metric: "+accuracy"}, "n5")
	first := w.saves(id, 1)
	w.uploads(first, 0)
	w.stores(first)
	second := w.saves(id, 2)
	w.pin(second, false)
	third := w.saves(id, 3)
	w.uploads(third, 0)
	w.stores(third)
	w.saves(id, 4)
	require.Nil(w.t, do[checkpoints.Result](w, checkpoints.Delete{Tenant: "acme", ID: second}).Refusal)
	scored := anEvaluation()
	scored.Scores = third
	w.submit(scored)
}

func TestArchive_aCheckpointBecomesDurableAndItsOldOnesGo(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{Keep: 1}, "n1")
	first := w.saves(id, 1)
	require.Equal(t, v1.CheckpointState_LOCAL, w.checkpoint(first).State())
	require.Equal(t, []v1.CheckpointAction_Value{v1.CheckpointAction_UPLOAD}, w.orders("n1")[first])
	require.Equal(t, 1, w.uploads(first, 3).Applied)
	require.Equal(t, v1.CheckpointState_UPLOADING, w.checkpoint(first).State())

	// While it is uploaded it stays, although a newer one is saved; so it does until a newer one is DURABLE.
	second := w.saves(id, 2)
	require.False(t, w.checkpoint(first).Expired())
	require.Equal(t, 1, w.stores(first).Applied)
	require.True(t, w.checkpoint(first).Durable())
	require.Equal(t, 1, w.stores(first).Duplicate)
	require.EqualValues(t, 5, w.m.View().ArchiveBytes())
	require.Equal(t, []v1.CheckpointAction_Value{v1.CheckpointAction_UPLOAD}, w.orders("n1")[second])
	require.NotContains(t, w.orders("n1"), first)
	require.Equal(t, 1, w.stores(second).Applied)
	gone := w.checkpoint(first)
	require.True(t, gone.Expired())
	require.Equal(t, []v1.CheckpointAction_Value{v1.CheckpointAction_REMOVE_FILES, v1.CheckpointAction_REMOVE_ARCHIVED}, w.orders("n1")[first])
	require.Equal(t, []ident.Checkpoint{second}, w.resumePoints(id))

	require.Equal(t, 1, w.says("n1", checkpoints.Report{ID: first, Kind: checkpoints.ReportFilesRemoved}).Applied)
	require.Equal(t, 1, w.says("n1", checkpoints.Report{ID: first, Kind: checkpoints.ReportArchivedRemoved}).Applied)
	require.Empty(t, w.orders("n1"))
	require.Zero(t, w.checkpoint(first).Left)
	require.EqualValues(t, 5, w.m.View().ArchiveBytes(), "of the second one")
}
