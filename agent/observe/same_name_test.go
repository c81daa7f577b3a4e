package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// latest saves a checkpoint under the name latest, by a rename, with files of the same sizes as the last one's.
func (w watched) latest(content string, at time.Time) {
	w.t.Helper()
	dir := filepath.Join(w.out, "latest")
	require.NoError(w.t, os.RemoveAll(dir))
	w.write(filepath.Join(w.out, "latest.tmp", "weights"), content)
	require.NoError(w.t, os.Chtimes(filepath.Join(w.out, "latest.tmp", "weights"), at, at))
	w.rename("latest.tmp", "latest")
}

// Each save under one name waits for its event, also when the one before had its event in time.
func TestCheckpointsOfOneNameEachWaitForTheirEvent(t *testing.T) {
	w := newWatched(t).hears()
	w.announce(`{"event": "phase", "phase": "TRAINING"}`)
	now := time.Now()
	for n := 1; n <= 4; n++ {
		now = now.Add(time.Minute)
		w.latest(fmt.Sprint("step ", n), now)
		require.Empty(t, pointsOf(w.scan(now, false)), "its event may be about to come")
		w.announce(fmt.Sprintf(`{"event": "checkpoint", "path": "latest", "step": %d, "metrics": {"loss": %d}}`, n, n))
		points := pointsOf(w.scan(now.Add(Interval), false))
		require.Len(t, points, 1)
		require.EqualValues(t, n, points[0].GetStep())
		require.JSONEq(t, fmt.Sprintf(`{"loss": %d}`, n), points[0].GetMetricsJson())
	}
}

func pointsOf(found []Finding) (all []*v1.CheckpointReport) {
	for _, f := range found {
		if c := f.Body.GetCheckpoint(); c != nil {
			all = append(all, c)
		}
	}
	return all
}

// A program that always saves under one name has each of its checkpoints registered, though their names and sizes are equal.
func TestCheckpointsOfOneNameAreAllRegistered(t *testing.T) {
	for _, events := range []bool{true, false} {
		t.Run(fmt.Sprint("events ", events), func(t *testing.T) {
			w := newWatched(t).hears()
			began := time.Now().Add(-time.Hour)
			var first *v1.CheckpointReport
			for n := 1; n <= 3; n++ {
				w.latest(fmt.Sprint("step ", n), began.Add(time.Duration(n)*time.Minute))
				if events {
					w.announce(fmt.Sprintf(`{"event": "checkpoint", "path": "latest", "step": %d}`, n))
				}
				points := pointsOf(w.scan(began, false))
				require.Len(t, points, 1)
				if events {
					require.EqualValues(t, n, points[0].GetStep())
				}
				require.Empty(t, pointsOf(w.scan(began, false)), "once")
				if n == 1 {
					first = points[0]
				}
			}
			require.Empty(t, pointsOf(w.scan(began, true)))
			err := Verify(t.Context(), &v1.ResumePoint{Path: first.GetPath(), ManifestDigest: first.GetManifestDigest()})
			require.ErrorContains(t, err, "it has changed since it was registered", "the first one is not the third")
		})
	}
}

// Files that are written over in place are another checkpoint, too, when the program says so.
func TestACheckpointWrittenOverIsRegisteredByItsEvent(t *testing.T) {
	w := newWatched(t)
	began := time.Now().Add(-time.Hour)
	weights := filepath.Join(w.out, "last", "weights")
	for n := int64(1); n <= 2; n++ {
		require.NoError(t, os.MkdirAll(filepath.Dir(weights), 0o755))
		require.NoError(t, os.WriteFile(weights, []byte(fmt.Sprint(n)), 0o644))
		at := began.Add(time.Duration(n) * time.Minute)
		require.NoError(t, os.Chtimes(weights, at, at))
		w.announce(fmt.Sprintf(`{"event": "checkpoint", "path": "last", "step": %d}`, n))
		points := pointsOf(w.scan(began, false))
		require.Len(t, points, 1)
		require.Equal(t, n, points[0].GetStep())
	}
}
