package agent

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
