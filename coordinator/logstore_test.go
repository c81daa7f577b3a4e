package coordinator

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/coordinator/recovery"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/raftnode/store"
)

// A start moves the log to the configured log store, and loses nothing.
func TestLogStore_isMoved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startClusterOnFiles(t, 1, func(config *Config) { config.LogStore = store.Bolt })
		m := c.members["c1"]
		dir := filepath.Join(m.config.DataDir, "raft")
		var jobs []string
		// restarted restarts the coordinator with another log store, and returns the path of the old log.
		restarted := func(logStore string) (kept string) {
			t.Helper()
			m.config.LogStore = logStore
			c.start("c1")
			c.leader()
			for _, id := range jobs {
				c.get("c1", id)
			}
			jobs = append(jobs, c.submit("c1", patient(sleeper(1, 0))))
			c.kill("c1")
			r, err := recovery.Verify(t.Context(), m.config.DataDir, "", 0)
			require.NoError(t, err)
			require.True(t, r.Sound(), r.Flaws)
			place, err := store.Find(dir, "")
			require.NoError(t, err)
			return place.Log
		}
		c.kill("c1")
		require.Equal(t, store.WAL, restarted(""))
		require.Equal(t, store.Bolt, restarted(store.Bolt))
		require.Equal(t, store.WAL, restarted(store.WAL))
	})
}

func TestLogStore_ofANewCoordinatorIsWAL(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startClusterOnFiles(t, 1, nil)
		place, err := store.Find(filepath.Join(c.members["c1"].config.DataDir, "raft"), "")
		require.NoError(t, err)
		require.Equal(t, store.WAL, place.Log)
	})
}

func TestLevel_dataAboveWhatIsSupportedIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, fitsLevel(dir))
	require.NoError(t, store.NoteLevel(dir, uint32(level.Newest)))
	require.NoError(t, fitsLevel(dir))
	require.NoError(t, store.NoteLevel(dir, uint32(level.Newest)+1))
	require.ErrorContains(t, fitsLevel(dir), fmt.Sprintf("the cluster is at feature level %d, and this version of mind supports levels up to %d: start the version that wrote its data", level.Newest+1, level.Newest))
}
