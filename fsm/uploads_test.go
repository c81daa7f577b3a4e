package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/checkpointverbs"
)

// A job saves every half second, keeps 3, and an upload takes 6 s; its node uploads two at a time.
func TestUploads_aJobThatSavesFasterThanItUploads(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{Keep: 3}, "n1")
	begun := map[ident.Checkpoint]int{}
	var durable []ident.Checkpoint
	for now := range 60 {
		w.later(500 * time.Millisecond)
		newest := w.saves(id, int64(now+1))
		for c, since := range begun {
			require.False(t, w.checkpoint(c).Expired(), "what is uploaded stays")
			if now-since == 12 {
				require.Equal(t, 1, w.stores(c).Applied)
				durable = append(durable, c)
				delete(begun, c)
			}
		}
		for _, o := range w.m.View().CheckpointOrders("n1") {
			if _, does := begun[o.ID]; !does && len(begun) < 2 && !w.checkpoint(o.ID).Expired() {
				require.Equal(t, newest, o.ID, "the next to upload is the newest")
				w.uploads(o.ID, 0)
				begun[o.ID] = now
			}
		}
	}
	require.Len(t, durable, 8)
}

// A checkpoint whose upload makes no progress is not kept for it.
func TestUploads_thatFailAreNotKept(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{Keep: 1}, "n1")
	first, second := w.saves(id, 1), ident.Checkpoint(0)
	w.uploads(first, 0)
	second = w.saves(id, 2)
	w.uploads(second, 0)
	w.saves(id, 3)
	require.False(t, w.checkpoint(first).Expired())
	require.False(t, w.checkpoint(second).Expired())
	full := checkpointverbs.Report{ID: second, Kind: checkpointverbs.ReportUpload, Error: reason.Text("the archive is full")}
	require.Equal(t, 1, w.says("n1", full).Applied)
	require.True(t, w.checkpoint(second).Expired())
	full.ID = first
	require.Equal(t, 1, w.says("n1", full).Applied)
	require.False(t, w.checkpoint(first).Expired(), "the oldest stays, or there would never be one")
}
