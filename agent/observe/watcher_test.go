package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

type watched struct {
	*Watcher
	t        *testing.T
	dir, out string
}

func newWatched(t *testing.T) watched {
	dir, out := t.TempDir(), t.TempDir()
	return watched{newWatcher(Config{Dir: dir, Spec: shim.Spec{CheckpointDir: out, Cwd: out}}), t, dir, out}
}

func (w watched) scan(now time.Time, last bool) []Finding {
	return w.Watcher.scan(w.t.Context(), now, last)
}

// manifestIn makes the manifest of a directory that a test made.
func manifestIn(t *testing.T, dir string) manifest {
	t.Helper()
	left := maxLookEntries
	m, err := manifestAt(t.Context(), dir, &left)
	require.NoError(t, err)
	return m
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

func (w watched) steps(found []Finding) (steps []int64) {
	for _, f := range found {
		if p := f.Body.GetProgress(); p != nil {
			steps = append(steps, p.GetStep())
		}
	}
	return steps
}

func (w watched) checkpointNames(found []Finding) (names []string) {
	for _, f := range found {
		if c := f.Body.GetCheckpoint(); c != nil {
			names = append(names, filepath.Base(c.GetPath()))
		}
	}
	return names
}

func TestProgressIsThrottled(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	metrics := filepath.Join(w.dir, shim.MetricsFile)
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
	w.write(filepath.Join(w.dir, shim.EventsFile), "nonsense\n[]\n{\"event\": 3}\n{\"event\": \"other\"}\n{\"event\": \"phase\", \"phase\": \"LUNCH\"}\n{\"event\": \"checkpoint\", \"path\": \""+filepath.Join(w.dir, "none")+"\"}\n"+
		strings.Repeat("x", taskfile.MaxLine+100)+"\n{\"event\": \"phase\", \"phase\": \"exporting\"}\n")
	found := w.scan(time.Unix(1000, 0), true)
	require.Len(t, found, 1)
	require.Equal(t, v1.JobPhase_EXPORTING, found[0].Body.GetPhase().GetPhase())
}

func (w watched) restarted() watched {
	w.t.Helper()
	w.End()
	next := watched{newWatcher(Config{Dir: w.dir, Spec: shim.Spec{CheckpointDir: w.out, Cwd: w.out}}), w.t, w.dir, w.out}
	return next
}

// hears gives the watcher the kernel's reports of renames.
func (w watched) hears() watched {
	m := NewRenames()
	w.t.Cleanup(m.Close)
	w.hear(m, &shim.Spec{})
	return w
}

func (w watched) rename(from, to string) {
	w.t.Helper()
	require.NoError(w.t, os.Rename(filepath.Join(w.out, from), filepath.Join(w.out, to)))
}

func TestACheckpointCountsOnceItWasRenamedIntoPlace(t *testing.T) {
	w := newWatched(t).hears()
	now := time.Unix(1000, 0)
	w.write(filepath.Join(w.out, "tmp-checkpoint-5", "model"), "a")
	require.Empty(t, w.scan(now, false))
	w.rename("tmp-checkpoint-5", "checkpoint-5")
	found := w.scan(now, false)
	require.Equal(t, []string{"checkpoint-5"}, w.checkpointNames(found))
	c := found[0].Body.GetCheckpoint()
	require.EqualValues(t, 5, c.GetStep())
	require.EqualValues(t, 1, c.GetSizeBytes())
	w.endedWell = true
	require.Empty(t, w.scan(now, true), "once")
}

func TestACheckpointWrittenInPlaceMayBeHalfWritten(t *testing.T) {
	w := newWatched(t).hears()
	now := time.Unix(1000, 0)
	file := filepath.Join(w.out, "checkpoint-5", "config")
	w.write(file, "small, and written at once; the model takes longer")
	for range 5 {
		require.Empty(t, w.scan(now, false), "it rests, which proves nothing")
	}
	require.Empty(t, w.scan(now, true), "the program was killed")
	// The renamed directory was moved away and its name created again: the new directory does not count as renamed.
	w.write(filepath.Join(w.out, "tmp-6", "model"), "a")
	w.rename("tmp-6", "checkpoint-6")
	require.NoError(t, os.RemoveAll(filepath.Join(w.out, "checkpoint-6")))
	w.write(filepath.Join(w.out, "checkpoint-6", "model"), "half")
	require.Empty(t, w.scan(now, true))
	w.endedWell = true
	require.Equal(t, []string{"checkpoint-5", "checkpoint-6"}, w.checkpointNames(w.scan(now, true)), "it said that it was done")
}

func TestARenameThatNobodyHeardOfIsSeenByTheTimes(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	w.write(filepath.Join(w.out, "checkpoint-1", "model"), "in place")
	w.write(filepath.Join(w.out, "tmp-2", "sub", "model"), "x")
	require.Empty(t, w.scan(now, false))
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"tmp-2/sub/model", "tmp-2/sub", "tmp-2"} {
		require.NoError(t, os.Chtimes(filepath.Join(w.out, name), old, old))
	}
	w.rename("tmp-2", "checkpoint-2")
	require.Equal(t, []string{"checkpoint-2"}, w.checkpointNames(w.scan(now, false)))
	// A file in it is younger than its name, so it was not complete when it got the name.
	w.write(filepath.Join(w.out, "checkpoint-3", "model"), "x")
	future := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(w.out, "checkpoint-3"), old, old))
	require.NoError(t, os.Chtimes(filepath.Join(w.out, "checkpoint-3", "model"), future, future))
	require.Empty(t, w.scan(now, false))
}

func TestNamesOfUnfinishedCheckpoints(t *testing.T) {
	w := newWatched(t)
	for _, name := range []string{".hidden", "x.tmp", "tmp-checkpoint-3", "checkpoint-3"} {
		w.write(filepath.Join(w.out, name, "f"), "x")
	}
	w.write(filepath.Join(w.out, "a-file"), "x")
	require.NoError(t, os.Mkdir(filepath.Join(w.out, "empty"), 0o755))
	w.endedWell = true
	require.Equal(t, []string{"checkpoint-3"}, w.checkpointNames(w.scan(time.Unix(1000, 0), true)))
}

func (w watched) announce(line string) { w.write(filepath.Join(w.dir, shim.EventsFile), line+"\n") }

// words lists the findings as words, in order.
func words(found []Finding) (list []string) {
	for _, f := range found {
		switch {
		case f.Body.GetCheckpoint() != nil:
			list = append(list, filepath.Base(f.Body.GetCheckpoint().GetPath()))
		case f.Body.GetPhase() != nil:
			list = append(list, f.Body.GetPhase().GetPhase().String())
		}
	}
	return list
}

func TestARestartedAgentTellsWhatWasNotAcknowledgedInItsOrder(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	step := func(line, name string) []Finding {
		if name != "" {
			w.write(filepath.Join(w.out, name, "f"), "x")
		}
		w.announce(line)
		return w.scan(now, false)
	}
	first := step(`{"event": "checkpoint", "path": "checkpoint-1"}`, "checkpoint-1")
	require.Equal(t, []string{"checkpoint-1"}, words(first))
	require.Equal(t, []string{"EVALUATING"}, words(step(`{"event": "phase", "phase": "EVALUATING"}`, "")))
	require.Equal(t, []string{"checkpoint-2"}, words(step(`{"event": "checkpoint", "path": "checkpoint-2", "metrics": {"loss": 1}}`, "checkpoint-2")))
	w = w.restarted()
	again := w.scan(now, false)
	require.Equal(t, []string{"checkpoint-1", "EVALUATING", "checkpoint-2"}, words(again))
	require.Equal(t, first[0].At.UnixNano(), again[0].At.UnixNano(), "with the time at which it was")
	require.JSONEq(t, `{"loss": 1}`, again[2].Body.GetCheckpoint().GetMetricsJson())
	require.Empty(t, w.scan(now, false))

	again[0].Acked()
	w = w.restarted()
	again = w.scan(now, false)
	require.Equal(t, []string{"EVALUATING", "checkpoint-2"}, words(again))
	for _, f := range again {
		f.Acked()
	}
	require.Equal(t, []string{"checkpoint-3"}, words(step(`{"event": "checkpoint", "path": "checkpoint-3"}`, "checkpoint-3")))
	w = w.restarted()
	require.Equal(t, []string{"checkpoint-3"}, words(w.scan(now, false)))
	require.Empty(t, words(w.scan(now, true)))
}

func TestACheckpointThatChangedBeforeItWasToldIsNotTold(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	for _, name := range []string{"a", "b", "c"} {
		w.write(filepath.Join(w.out, name, "f"), "x")
		w.announce(`{"event": "checkpoint", "path": "` + name + `"}`)
	}
	require.Equal(t, []string{"a", "b", "c"}, words(w.scan(now, false)))
	require.NoError(t, os.RemoveAll(filepath.Join(w.out, "a")))
	w.write(filepath.Join(w.out, "b", "f"), "written over, by half")
	w = w.restarted()
	require.Equal(t, []string{"c"}, words(w.scan(now, false)))
	require.Empty(t, words(w.scan(now, false)))
	// The program reports when it is complete again.
	w.announce(`{"event": "checkpoint", "path": "b"}`)
	require.Equal(t, []string{"b"}, words(w.scan(now, false)))
}

func TestAnEventIsNotTakenForTheNextOneOfTheSamePath(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	w.write(filepath.Join(w.out, "latest", "f"), "x")
	w.announce(`{"event": "checkpoint", "path": "latest", "step": 1}`)
	found := w.scan(now, false)
	require.Len(t, found, 1)
	found[0].Acked()
	// The program writes it again when the agent restarts.
	w.write(filepath.Join(w.out, "latest", "f"), "half of the next")
	w = w.restarted()
	require.Empty(t, w.scan(now, false))
	w.announce(`{"event": "checkpoint", "path": "latest", "step": 2}`)
	found = w.scan(now, false)
	require.Len(t, found, 1)
	require.EqualValues(t, 2, found[0].Body.GetCheckpoint().GetStep())
	// A rewritten events file is read again.
	require.NoError(t, os.Remove(filepath.Join(w.dir, shim.EventsFile)))
	w.write(filepath.Join(w.out, "c", "f"), "x")
	w.announce(`{"event": "checkpoint", "path": "c"}`)
	require.Equal(t, []string{"c"}, words(w.scan(now, false)))
}

func TestAJournalThatWasCutOffIsReadAsFarAsItGoes(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	w.announce(`{"event": "phase", "phase": "EVALUATING"}`)
	require.Equal(t, []string{"EVALUATING"}, words(w.scan(now, false)))
	w.write(filepath.Join(w.dir, journalFile), `{"n":2,"at":5,"rep`)
	w = w.restarted()
	require.Equal(t, []string{"EVALUATING"}, words(w.scan(now, false)))
	w.announce(`{"event": "phase", "phase": "EXPORTING"}`)
	require.Equal(t, []string{"EXPORTING"}, words(w.scan(now, false)))
	w = w.restarted()
	require.Equal(t, []string{"EVALUATING", "EXPORTING"}, words(w.scan(now, false)))
}

func TestWhatAnEarlierVersionRegisteredIsKnown(t *testing.T) {
	w := newWatched(t)
	w.write(filepath.Join(w.out, "checkpoint-1", "f"), "x")
	w.write(filepath.Join(w.dir, registeredFile), manifestIn(t, filepath.Join(w.out, "checkpoint-1")).digest+" "+filepath.Join(w.out, "checkpoint-1")+"\n")
	w.endedWell = true
	require.Empty(t, w.scan(time.Unix(1000, 0), true))
}

func TestTheSameCheckpointByEventAndByName(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	w.write(filepath.Join(w.out, "checkpoint-7", "f"), "x")
	w.write(filepath.Join(w.dir, shim.EventsFile), "{\"event\": \"checkpoint\", \"path\": \"checkpoint-7\", \"metrics\": {\"loss\": 1}}\n")
	found := w.scan(now, true)
	require.Len(t, found, 1)
	require.JSONEq(t, `{"loss": 1}`, found[0].Body.GetCheckpoint().GetMetricsJson())
	require.EqualValues(t, 7, found[0].Body.GetCheckpoint().GetStep())
}

func TestManifestDependsOnNamesSizesAndTimes(t *testing.T) {
	base, at := t.TempDir(), time.Unix(1000, 5)
	written := func(name string, files map[string]string) string {
		dir := filepath.Join(base, name)
		for f, text := range files {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte(text), 0o644))
			require.NoError(t, os.Chtimes(filepath.Join(dir, f), at, at))
		}
		return manifestIn(t, dir).digest
	}
	one := written("one", map[string]string{"a": "x", "b/c": "yy"})
	require.Equal(t, one, written("same", map[string]string{"a": "z", "b/c": "ww"}))
	require.NotEqual(t, one, written("size", map[string]string{"a": "x", "b/c": "yyy"}))
	require.NotEqual(t, one, written("name", map[string]string{"a": "x", "b/d": "yy"}))
	at = at.Add(time.Nanosecond)
	require.NotEqual(t, one, written("later", map[string]string{"a": "x", "b/c": "yy"}))
}

func TestARegisteredCheckpointBecomesAModelAndStaysOne(t *testing.T) {
	w := newWatched(t).hears()
	now := time.Unix(1000, 0)
	w.write(filepath.Join(w.out, "tmp-x", "f"), "x")
	w.rename("tmp-x", "step-40")
	kinds := func(found []Finding) (all []string) {
		for _, f := range found {
			if c := f.Body.GetCheckpoint(); c != nil {
				all = append(all, fmt.Sprint(filepath.Base(c.GetPath()), " ", c.GetKind(), " ", c.GetStep()))
			}
		}
		return all
	}
	require.Equal(t, []string{"step-40 UNSPECIFIED 40"}, kinds(w.scan(now, false)), "by its rename")
	w.announce(`{"event": "checkpoint", "path": "step-40", "kind": "model"}`)
	require.Equal(t, []string{"step-40 MODEL 40"}, kinds(w.scan(now, false)))

	w.write(filepath.Join(w.out, "best", "f"), "x")
	w.announce(`{"event": "checkpoint", "path": "best", "step": 50}`)
	require.Equal(t, []string{"best UNSPECIFIED 50"}, kinds(w.scan(now, false)))
	w = w.restarted()
	require.Len(t, kinds(w.scan(now, false)), 3, "none was acknowledged")
	w.announce(`{"event": "checkpoint", "path": "best", "kind": "MODEL"}`)
	require.Equal(t, []string{"best MODEL 50"}, kinds(w.scan(now, false)), "of the step that it had")
	for _, again := range []string{`"kind": "model"`, `"step": 50`, `"step": 60`} {
		w.announce(`{"event": "checkpoint", "path": "best", ` + again + `}`)
		require.Empty(t, kinds(w.scan(now, false)), again)
	}
	w = w.restarted()
	require.Equal(t, []string{"step-40 UNSPECIFIED 40", "step-40 MODEL 40", "best UNSPECIFIED 50", "best MODEL 50"}, kinds(w.scan(now, false)))
	w.announce(`{"event": "checkpoint", "path": "best", "step": 50}`)
	require.Empty(t, kinds(w.scan(now, false)), "the next agent knows that it is a model")
}
