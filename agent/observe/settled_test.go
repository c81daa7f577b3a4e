package observe

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
)

// saves writes files of a checkpoint in place, as the trainer of transformers does.
func (w watched) saves(step int, files ...string) {
	w.t.Helper()
	for _, file := range files {
		w.write(filepath.Join(w.out, fmt.Sprintf("checkpoint-%d", step), file), contentsOf(w.t, file, step))
	}
}

func contentsOf(t *testing.T, file string, step int) string {
	t.Helper()
	switch filepath.Ext(file) {
	case ".safetensors":
		header, err := json.Marshal(map[string]any{"a": map[string]any{"dtype": "F32", "shape": []int{2}, "data_offsets": []int{0, 8}}, "__metadata__": map[string]string{"format": "pt"}})
		require.NoError(t, err)
		return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + string(header) + "12345678"
	case ".json":
		if file == trainerState {
			return fmt.Sprintf(`{"epoch": 1, "global_step": %d}`, step)
		}
		return `{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}`
	}
	return file
}

// A job that was paused with the checkpoints 50, 100 and 150 on disk once resumed from the beginning.
func TestACheckpointWrittenInPlaceCountsWhileTheProgramRuns(t *testing.T) {
	w := newWatched(t).hears()
	now := time.Unix(1000, 0)
	look := func(after time.Duration) []string {
		now = now.Add(after)
		return w.checkpointNames(w.scan(now, false))
	}
	w.saves(50, "model.safetensors", "optimizer.pt")
	require.Empty(t, look(0))
	require.Empty(t, look(trainerQuiet), "its trainer still writes")
	w.saves(50, "scheduler.pt", trainerState)
	require.Empty(t, look(trainerQuiet), "it has just changed")
	w.saves(50, "rng_state_1.pth")
	require.Empty(t, look(trainerQuiet), "and again, by another rank")
	require.Empty(t, look(trainerQuiet-1))
	require.Equal(t, []string{"checkpoint-50"}, look(1))
	require.Empty(t, look(time.Hour), "once")
	w.saves(100, "model.safetensors", trainerState)
	require.Empty(t, look(0))
	require.Equal(t, []string{"checkpoint-100"}, look(trainerQuiet))

	w.saves(150, "model.safetensors", trainerState)
	w.saves(200, "model.safetensors", "optimizer.pt")
	require.Equal(t, []string{"checkpoint-150"}, w.checkpointNames(w.scan(now.Add(Interval), true)), "it was stopped while it saved 200")
}

func TestWhatIsNotWholeNeverCounts(t *testing.T) {
	for name, files := range map[string][]string{
		"weights that are too long":  {"model.safetensors", "model.safetensors", trainerState}, // written twice into the same file
		"a shard is missing":         {"model.safetensors.index.json", "model-1.safetensors", trainerState},
		"no state, and other files":  {"model.bin"},
		"a state without its weight": {"model.safetensors.index.json", trainerState},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t).hears()
			w.saves(5, files...)
			for i := range 3 {
				require.Empty(t, w.checkpointNames(w.scan(time.Unix(1000, 0).Add(time.Duration(i)*otherQuiet), false)))
			}
			require.Empty(t, w.checkpointNames(w.scan(time.Unix(5000, 0), true)))
		})
	}
	t.Run("the state of another step", func(t *testing.T) {
		w := newWatched(t).hears()
		w.write(filepath.Join(w.out, "checkpoint-6", trainerState), contentsOf(t, trainerState, 5))
		for i := range 3 {
			require.Empty(t, w.checkpointNames(w.scan(time.Unix(1000, 0).Add(time.Duration(i)*otherQuiet), false)))
		}
	})
}

// Without the state of a trainer, or with a program that writes events, a checkpoint must stay unchanged for longer.
func TestWithoutTheStateOfATrainerItTakesLonger(t *testing.T) {
	for name, reports := range map[string]bool{"other files": false, "a program that reports events": true} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t).hears()
			now := time.Unix(1000, 0)
			w.saves(5, "model.safetensors")
			if reports {
				w.saves(5, trainerState)
				w.write(filepath.Join(w.dir, shim.EventsFile), `{"event": "phase", "phase": "TRAINING"}`+"\n")
			}
			require.Empty(t, w.checkpointNames(w.scan(now, false)))
			require.Empty(t, w.checkpointNames(w.scan(now.Add(otherQuiet-1), false)))
			found := w.checkpointNames(w.scan(now.Add(otherQuiet), false))
			found = append(found, w.checkpointNames(w.scan(now.Add(otherQuiet+eventPatience), false))...)
			require.Equal(t, []string{"checkpoint-5"}, found)
		})
	}
}

// A checkpoint that changes after it was reported is reported again at the end, in its final state.
func TestACheckpointThatIsChangedAfterItCountedIsToldAgain(t *testing.T) {
	w := newWatched(t).hears()
	now := time.Unix(1000, 0)
	w.saves(5, "model.safetensors", trainerState)
	w.scan(now, false)
	before := w.scan(now.Add(trainerQuiet), false)
	require.Len(t, before, 1)
	w.saves(5, "added.bin")
	after := w.scan(now.Add(time.Hour), true)
	require.Len(t, after, 1)
	require.Equal(t, manifestIn(t, filepath.Join(w.out, "checkpoint-5")).digest, after[0].Body.GetCheckpoint().GetManifestDigest())
	require.NotEqual(t, before[0].Body.GetCheckpoint().GetManifestDigest(), after[0].Body.GetCheckpoint().GetManifestDigest())
}
