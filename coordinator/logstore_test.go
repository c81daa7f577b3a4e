package coordinator

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/coordinator/recovery"
	"github.com/mindcoordinator/mind/raftnode/store"
)

// A coordinator whose log an earlier version wrote leaves it where that version can read it, until the feature level was
// raised. The first start after that moves it, and a configured log_store moves it back. Nothing is lost on the way.
func TestLogStore_isMovedWhenTheLevelWasRaised(t *testing.T) {
	c := startCluster(t, 1, func(config *Config) { config.LogStore = store.Bolt })
	m := c.members["c1"]
	dir := filepath.Join(m.config.DataDir, "raft")
	var jobs []string
	// restarted ends the coordinator, looks at its data, and starts it again with another configuration.
	restarted := func(logStore string) {
		t.Helper()
		jobs = append(jobs, c.submit("c1", patient(sleeper(1, 0))))
		c.kill("c1")
		m.config.LogStore = logStore
		c.start("c1")
		c.leader()
		for _, id := range jobs {
			c.get("c1", id)
		}
		c.kill("c1")
		defer func() {
			c.start("c1")
			c.leader()
		}()
		r, err := recovery.Verify(t.Context(), m.config.DataDir, "", 0)
		require.NoError(t, err)
		require.True(t, r.Sound(), r.Flaws)
	}
	kept := func() string {
		place, err := store.Find(dir, "")
		require.NoError(t, err)
		return place.Log
	}
	restarted("")
	require.Equal(t, store.Bolt, kept(), "an earlier version could not read it any more")
	require.NoError(t, store.NoteLevel(dir, store.WALLevel-1))
	restarted("")
	require.Equal(t, store.Bolt, kept())

	require.NoError(t, store.NoteLevel(dir, store.WALLevel))
	restarted("")
	require.Equal(t, store.WAL, kept())
	restarted(store.Bolt)
	require.Equal(t, store.Bolt, kept())
	restarted(store.WAL)
	require.Equal(t, store.WAL, kept())
}

func TestLogStore_ofANewCoordinatorIsWAL(t *testing.T) {
	c := startCluster(t, 1, nil)
	place, err := store.Find(filepath.Join(c.members["c1"].config.DataDir, "raft"), "")
	require.NoError(t, err)
	require.Equal(t, store.WAL, place.Log)
}
