package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/checkpointverbs"
)

func TestCheckpointReports_areReadAsWhatTheySay(t *testing.T) {
	id := ident.Checkpoint(1 << 16)
	upload := &v1.Report{Seq: 1, Body: &v1.Report_CheckpointUpload{CheckpointUpload: &v1.CheckpointUpload{CheckpointId: id.String(), DoneBytes: 7, Error: "\x01full", Gone: true}}}
	stored := &v1.Report{Seq: 2, Body: &v1.Report_CheckpointStored{CheckpointStored: &v1.CheckpointStored{CheckpointId: id.String(), ArchiveKey: "k", ContentDigest: "d", StoredBytes: 9}}}
	removed := func(action v1.CheckpointAction_Value) *v1.Report {
		return &v1.Report{Seq: 3, Body: &v1.Report_CheckpointRemoved{CheckpointRemoved: &v1.CheckpointRemoved{CheckpointId: id.String(), Action: action}}}
	}
	got := CheckpointReports("n1", []*v1.Report{
		upload, stored, removed(v1.CheckpointAction_REMOVE_FILES), removed(v1.CheckpointAction_REMOVE_ARCHIVED),
		removed(v1.CheckpointAction_UPLOAD),
		{Body: &v1.Report_CheckpointStored{CheckpointStored: &v1.CheckpointStored{CheckpointId: "x"}}},
		{Body: &v1.Report_Running{}},
	})
	require.Equal(t, checkpointverbs.ReportCheckpoints{Node: "n1", Reports: []checkpointverbs.Report{
		{ID: id, Kind: checkpointverbs.ReportUpload, Bytes: 7, Error: "full", Gone: true},
		{ID: id, Kind: checkpointverbs.ReportStored, Bytes: 9, Key: "k", Digest: "d"},
		{ID: id, Kind: checkpointverbs.ReportFilesRemoved},
		{ID: id, Kind: checkpointverbs.ReportArchivedRemoved},
	}}, got)
	command, last := Reports("n1", []*v1.Report{upload, stored})
	require.Empty(t, command.Reports)
	require.EqualValues(t, 2, last, "they are acknowledged all the same")
}

func TestPace_writesProgressNowAndThen(t *testing.T) {
	var p pace
	start := time.Unix(1, 0)
	progress := func(bytes int64, why string) checkpointverbs.Report {
		return checkpointverbs.Report{ID: 5, Kind: checkpointverbs.ReportUpload, Bytes: bytes, Error: reason.Text(why)}
	}
	written := func(after time.Duration, r checkpointverbs.Report) int {
		return len(p.thin([]checkpointverbs.Report{r}, start.Add(after)))
	}
	require.Equal(t, 1, written(0, progress(1, "")))
	require.Equal(t, 0, written(time.Second, progress(2, "")))
	require.Equal(t, 1, written(time.Second, progress(2, "full")), "an error is news")
	require.Equal(t, 0, written(2*time.Second, progress(3, "full")))
	require.Equal(t, 1, written(time.Second+progressPause, progress(4, "full")))
	require.Equal(t, 1, written(time.Second+progressPause, checkpointverbs.Report{ID: 5, Kind: checkpointverbs.ReportStored}))
	require.Equal(t, 1, written(time.Second+progressPause, progress(0, "")), "it begins again")
	gone := progress(0, "")
	gone.Gone = true
	require.Equal(t, 1, written(time.Second+progressPause, gone))
}
