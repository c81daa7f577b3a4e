package observe

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
)

// An agent that had been down for a while found several checkpoints at once, and jobs resumed from step 90 instead of
// 130.
func TestCheckpointsFoundTogetherAreToldInTheOrderOfTheirMaking(t *testing.T) {
	w := newWatched(t).hears()
	began := time.Unix(1000, 0)
	var want []string
	for i, step := range []int{90, 100, 110, 130} {
		name := "checkpoint-" + strconv.Itoa(step)
		w.write(filepath.Join(w.out, "tmp-x", "model"), "a")
		w.rename("tmp-x", name)
		at := began.Add(time.Duration(i) * time.Second)
		require.NoError(t, os.Chtimes(filepath.Join(w.out, name), at, at))
		want = append(want, name)
	}
	require.Equal(t, want, w.checkpointNames(w.scan(began, false)))
}

func TestACheckpointThatWasMissedIsNotToldAfterNewerOnes(t *testing.T) {
	w := newWatched(t).hears()
	began := time.Unix(1000, 0)
	// By its times, this one was written in place: it counts only after the end of the program.
	inPlace := func(name string, at time.Time) {
		model, later := filepath.Join(w.out, name, "model"), time.Now().Add(time.Hour)
		w.write(model, "a")
		require.NoError(t, os.Chtimes(model, later, later))
		require.NoError(t, os.Chtimes(filepath.Join(w.out, name), at, at))
	}
	w.write(filepath.Join(w.out, "tmp-x", "model"), "a")
	w.rename("tmp-x", "checkpoint-90")
	require.NoError(t, os.Chtimes(filepath.Join(w.out, "checkpoint-90"), began, began))
	require.Equal(t, []string{"checkpoint-90"}, w.checkpointNames(w.scan(began, false)))
	inPlace("checkpoint-50", began.Add(-time.Second))
	inPlace("checkpoint-130", began.Add(time.Second))
	require.Empty(t, w.checkpointNames(w.scan(began, false)))
	w.endedWell = true
	require.Equal(t, []string{"checkpoint-130"}, w.checkpointNames(w.scan(began, true)), "50 would count as the newest")
}

// A program renames a directory into place and reports it a moment later: the report with the metrics counts.
func TestACheckpointThatIsReportedAfterItsRenameKeepsItsMetrics(t *testing.T) {
	w := newWatched(t).hears()
	now := time.Unix(1000, 0)
	events := filepath.Join(w.dir, shim.EventsFile)
	w.write(events, `{"event": "phase", "phase": "CHECKPOINTING"}`+"\n")
	w.write(filepath.Join(w.out, "tmp-checkpoint-5", "model"), "a")
	w.rename("tmp-checkpoint-5", "checkpoint-5")
	require.Empty(t, w.checkpointNames(w.scan(now, false)), "its event may be about to come")

	w.write(events, `{"event": "checkpoint", "path": "`+filepath.Join(w.out, "checkpoint-5")+`", "step": 5, "metrics": {"eval_loss": 0.5}}`+"\n")
	found := w.scan(now.Add(Interval), false)
	require.Equal(t, []string{"checkpoint-5"}, w.checkpointNames(found))
	for _, f := range found {
		if c := f.Body.GetCheckpoint(); c != nil {
			require.JSONEq(t, `{"eval_loss": 0.5}`, c.GetMetricsJson())
		}
	}
	require.Empty(t, w.checkpointNames(w.scan(now.Add(time.Hour), false)), "once")

	w.write(filepath.Join(w.out, "tmp-checkpoint-6", "model"), "a")
	w.rename("tmp-checkpoint-6", "checkpoint-6")
	require.Empty(t, w.checkpointNames(w.scan(now.Add(time.Hour), false)))
	require.Equal(t, []string{"checkpoint-6"}, w.checkpointNames(w.scan(now.Add(time.Hour+eventPatience), false)), "an event is not needed")

	w.write(filepath.Join(w.out, "tmp-checkpoint-7", "model"), "a")
	w.rename("tmp-checkpoint-7", "checkpoint-7")
	require.Equal(t, []string{"checkpoint-7"}, w.checkpointNames(w.scan(now.Add(time.Hour+eventPatience), true)), "at the end nothing waits")
}
