package observe

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Found by an agent that was away while its jobs went on: they resumed from step 90 and not from 130.
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
	// Written in place, as far as its times tell: only the end of the program makes it count.
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
