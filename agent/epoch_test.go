package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheEpochGrowsWithEachStartWhateverBecameOfItsFile(t *testing.T) {
	log := testConfig(t).Logger
	now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	for want := uint64(1); want < 4; want++ {
		epoch, err := nextEpoch(dir, now, log)
		require.NoError(t, err)
		require.Equal(t, want<<32, epoch)
	}
	last := uint64(3) << 32
	for _, damaged := range []string{"", "\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00", "0123456789"} {
		now = now.Add(time.Hour)
		require.NoError(t, os.WriteFile(filepath.Join(dir, epochFile), []byte(damaged), 0o600))
		epoch, err := nextEpoch(dir, now, log)
		require.NoError(t, err)
		require.Greater(t, epoch, last)
		next, err := nextEpoch(dir, now, log)
		require.NoError(t, err)
		require.Equal(t, epoch+1<<32, next)
		last = next
	}

	// The file is gone, and something else tells of an earlier agent.
	require.NoError(t, os.Remove(filepath.Join(dir, epochFile)))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, tasksFolder, "job_1.1.0.5"), 0o700))
	_, err := nextEpoch(dir, time.Unix(100, 0), log)
	require.ErrorContains(t, err, "set the clock")
	epoch, err := nextEpoch(dir, now.Add(time.Hour), log)
	require.NoError(t, err)
	require.Greater(t, epoch, last)
}
