package leader

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNumbersGrowWithEachStartWhateverBecameOfTheirFile(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	for want := uint64(1); want < 4; want++ {
		first, err := FirstNumber(dir, []string{"gpus.json", "tasks"}, now, log)
		require.NoError(t, err)
		require.Equal(t, want<<32, first)
	}
	last := uint64(3) << 32
	for _, damaged := range []string{"", "\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00", "0123456789"} {
		now = now.Add(time.Hour)
		require.NoError(t, os.WriteFile(filepath.Join(dir, startsFile), []byte(damaged), 0o600))
		first, err := FirstNumber(dir, []string{"gpus.json", "tasks"}, now, log)
		require.NoError(t, err)
		require.Greater(t, first, last)
		next, err := FirstNumber(dir, []string{"gpus.json", "tasks"}, now, log)
		require.NoError(t, err)
		require.Equal(t, first+1<<32, next)
		last = next
	}

	// The file is gone, but another file shows that there was an earlier agent.
	require.NoError(t, os.Remove(filepath.Join(dir, startsFile)))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "tasks", "job_1.1.0.5"), 0o700))
	_, err := FirstNumber(dir, []string{"gpus.json", "tasks"}, time.Unix(100, 0), log)
	require.ErrorContains(t, err, "set the clock")
	first, err := FirstNumber(dir, []string{"gpus.json", "tasks"}, now.Add(time.Hour), log)
	require.NoError(t, err)
	require.Greater(t, first, last)
}
