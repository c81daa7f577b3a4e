package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

type watched struct {
	*watcher
	t        *testing.T
	dir, out string
}

func newWatched(t *testing.T) watched {
	dir, out := t.TempDir(), t.TempDir()
	return watched{newWatcher(dir, shim.Spec{CheckpointDir: out, Cwd: out}), t, dir, out}
}

func (w watched) write(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(name), 0o755))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(w.t, err)
	defer file.Close()
	_, err = file.WriteString(text)
	require.NoError(w.t, err)
}

func (w watched) steps(found []finding) (steps []int64) {
	for _, f := range found {
		if p := f.body.GetProgress(); p != nil {
			steps = append(steps, p.GetStep())
		}
	}
	return steps
}

func (w watched) checkpointNames(found []finding) (names []string) {
	for _, f := range found {
		if c := f.body.GetCheckpoint(); c != nil {
			names = append(names, filepath.Base(c.GetPath()))
		}
	}
	return names
}

func TestProgressIsThrottled(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	metrics := filepath.Join(w.dir, metricsFile)
	w.write(metrics, "{\"step\": 1}\n{\"step\": 2}\n{\"ste")
	require.Equal(t, []int64{2}, w.steps(w.scan(now, false)))
	w.write(metrics, "p\": 3}\n")
	require.Empty(t, w.steps(w.scan(now.Add(progressInterval/2), false)))
	require.Equal(t, []int64{3}, w.steps(w.scan(now.Add(progressInterval), false)))
	require.Empty(t, w.steps(w.scan(now.Add(2*progressInterval), false)))
	w.write(metrics, "{\"step\": 4, \"loss\": NaN}\n{\"epoch\": 1}\nstep 5\n")
	require.Equal(t, []int64{4}, w.steps(w.scan(now.Add(2*progressInterval), true)))
}

func TestEventsThatAreNoneAreLeftAlone(t *testing.T) {
	w := newWatched(t)
	w.write(filepath.Join(w.dir, eventsFile), "nonsense\n[]\n{\"event\": 3}\n{\"event\": \"other\"}\n{\"event\": \"phase\", \"phase\": \"LUNCH\"}\n{\"event\": \"checkpoint\", \"path\": \"/no/such\"}\n"+
		strings.Repeat("x", maxEventLine+100)+"\n{\"event\": \"phase\", \"phase\": \"exporting\"}\n")
	found := w.scan(time.Unix(1000, 0), true)
	require.Len(t, found, 1)
	require.Equal(t, v1.JobPhase_EXPORTING, found[0].body.GetPhase().GetPhase())
}

func TestACheckpointWrittenInPlaceIsTakenWhenItRests(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	file := filepath.Join(w.out, "checkpoint-5", "model")
	w.write(file, "a")
	require.Empty(t, w.scan(now, false))
	w.write(file, "b")
	require.Empty(t, w.scan(now, false), "it had grown")
	found := w.scan(now, false)
	require.Equal(t, []string{"checkpoint-5"}, w.checkpointNames(found))
	c := found[0].body.GetCheckpoint()
	require.EqualValues(t, 5, c.GetStep())
	require.EqualValues(t, 2, c.GetSizeBytes())
	require.Empty(t, w.scan(now, true), "once")
}

func TestNamesOfUnfinishedCheckpoints(t *testing.T) {
	w := newWatched(t)
	for _, name := range []string{".hidden", "x.tmp", "tmp-checkpoint-3", "checkpoint-3"} {
		w.write(filepath.Join(w.out, name, "f"), "x")
	}
	w.write(filepath.Join(w.out, "a-file"), "x")
	require.NoError(t, os.Mkdir(filepath.Join(w.out, "empty"), 0o755))
	require.Equal(t, []string{"checkpoint-3"}, w.checkpointNames(w.scan(time.Unix(1000, 0), true)))
}

func TestARestartedAgentTellsOnlyWhatIsNotKnown(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	w.write(filepath.Join(w.out, "checkpoint-1", "f"), "x")
	found := w.scan(now, true)
	require.Len(t, found, 1)
	again := watched{newWatcher(w.dir, shim.Spec{CheckpointDir: w.out}), t, w.dir, w.out}
	require.Len(t, again.scan(now, true), 1, "nobody has acknowledged it")
	noteRegistered(w.dir, found[0].registered)
	w.write(filepath.Join(w.out, "checkpoint-2", "f"), "x")
	again = watched{newWatcher(w.dir, shim.Spec{CheckpointDir: w.out}), t, w.dir, w.out}
	require.Equal(t, []string{"checkpoint-2"}, again.checkpointNames(again.scan(now, true)))
}

func TestTheSameCheckpointByEventAndByName(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	w.write(filepath.Join(w.out, "checkpoint-7", "f"), "x")
	w.write(filepath.Join(w.dir, eventsFile), "{\"event\": \"checkpoint\", \"path\": \"checkpoint-7\", \"metrics\": {\"loss\": 1}}\n")
	found := w.scan(now, true)
	require.Len(t, found, 1)
	require.JSONEq(t, `{"loss": 1}`, found[0].body.GetCheckpoint().GetMetricsJson())
	require.EqualValues(t, 7, found[0].body.GetCheckpoint().GetStep())
}

func TestManifestDependsOnNamesAndSizes(t *testing.T) {
	base := t.TempDir()
	written := func(name string, files map[string]string) string {
		dir := filepath.Join(base, name)
		for f, text := range files {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte(text), 0o644))
		}
		digest, _, err := manifest(dir)
		require.NoError(t, err)
		return digest
	}
	one := written("one", map[string]string{"a": "x", "b/c": "yy"})
	require.Equal(t, one, written("same", map[string]string{"a": "z", "b/c": "ww"}))
	require.NotEqual(t, one, written("size", map[string]string{"a": "x", "b/c": "yyy"}))
	require.NotEqual(t, one, written("name", map[string]string{"a": "x", "b/d": "yy"}))
}
