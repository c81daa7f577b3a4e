package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// exports reports a checkpoint that saves has registered, as a model.
func (w *world) exports(id ident.Job, step int64, metrics string) []ident.Checkpoint {
	return w.report(id, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) {
		*r = w.saved(*r, step)
		r.Model, r.Metrics = true, metrics
	}).Checkpoints
}

func TestModels_aCheckpointBecomesOne(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{Keep: 1}, "n1")
	first := w.durable(id, 1)
	second := w.durable(id, 2)
	require.True(t, w.checkpoint(first).Expired())
	require.Empty(t, w.exports(id, 1, ""), "it was given up, and its files are being removed")
	third := w.durable(id, 3)
	require.Equal(t, []ident.Checkpoint{third}, w.exports(id, 3, `{"loss":1}`))
	require.True(t, w.checkpoint(third).Model)
	require.True(t, w.checkpoint(third).Durable(), "it need not be uploaded again")
	require.Equal(t, `{"loss":1}`, w.checkpoint(third).Metrics)
	require.NotEqual(t, third, w.job(id).LastCheckpoint, "nothing goes on from a model")
	require.Empty(t, w.exports(id, 3, ""), "it is one")
	require.Empty(t, w.report(id, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) { *r = w.saved(*r, 3) }).Checkpoints)
	require.True(t, w.checkpoint(third).Model, "a model stays one")
	require.True(t, w.checkpoint(second).Expired(), "it went when there was a newer one")

	fourth := w.durable(id, 4)
	require.Equal(t, fourth, w.job(id).LastCheckpoint)
	w.durable(id, 5)
	require.True(t, w.checkpoint(fourth).Expired())
	require.False(t, w.checkpoint(third).Expired(), "models are kept")
}

func TestModels_theJobGoesOnFromTheOneBefore(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{}, "n1")
	before, last := w.saves(id, 1), w.saves(id, 2)
	require.Equal(t, []ident.Checkpoint{last}, w.exports(id, 2, ""))
	require.Equal(t, before, w.job(id).LastCheckpoint)
	require.Equal(t, []ident.Checkpoint{before}, w.resumePoints(id))
}
