package coordinator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/recovery"
	"github.com/mindcoordinator/mind/raftnode"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

func TestVerify_whatAClusterWrote(t *testing.T) {
	const threshold = 16
	for _, store := range []string{"boltdb", "wal"} {
		t.Run(store, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := startClusterOnFiles(t, 3, func(config *Config) {
					config.LogStore = store
					config.RaftTuning = func(r *raftnode.Config) {
						r.SnapshotThreshold, r.SnapshotInterval, r.TrailingLogs = threshold, 50*time.Millisecond, 20
					}
				})
				a := c.agent("n1", 2)
				var last string
				for i := range 30 {
					id := c.submit(c.ids[i%3], sleeper(1, 0))
					last = id
					if i < 4 {
						c.awaitStatus(c.ids[0], id, v1.JobStatus_TRAINING)
						a.end(id, int32(i%2))
						c.await(c.ids[0], id, func(j *v1.Job) bool { return j.GetFinishedAt() != nil })
					}
				}
				_, err := recovery.Verify(t.Context(), c.members["c1"].config.DataDir, "", 0)
				require.ErrorIs(t, err, verify.ErrInUse)
				for _, id := range c.ids {
					c.eventually(id+" takes no snapshot", func() bool { return newestSnapshot(c.members[id].config.DataDir) > 0 })
				}
				// The compared entries are in the log of c1 only if its next snapshot is far away, because a snapshot
				// truncates the log.
				c.eventually("c1 takes no more snapshots", func() bool {
					now, err := c.operators("c1").GetStateHash(c.ctx("", ""), &v1.GetStateHashRequest{})
					require.NoError(t, err)
					behind := now.GetIndex() - min(now.GetIndex(), newestSnapshot(c.members["c1"].config.DataDir))
					if behind > threshold/4 && behind < threshold { // otherwise a snapshot is due
						c.write("c1")
					}
					return behind <= threshold/4
				})
				want, err := c.operators("c1").GetStateHash(c.ctx("", ""), &v1.GetStateHashRequest{})
				require.NoError(t, err)
				for _, id := range c.ids { // A lagging replica would be stopped before it has all entries.
					c.get(id, last)
				}
				for _, id := range c.ids {
					c.kill(id)
				}
				agree := 0
				for _, id := range c.ids {
					r, err := recovery.Verify(t.Context(), c.members[id].config.DataDir, "", want.GetIndex())
					require.NoError(t, err)
					require.True(t, r.Sound(), "%s: %v", id, r.Flaws)
					require.Equal(t, store, r.LogStore)
					require.NotEmpty(t, r.Snapshots)
					require.GreaterOrEqual(t, r.State.Index, want.GetIndex())
					if r.State.AtHash != "" { // unless this log begins later
						require.Equal(t, want.GetHash(), r.State.AtHash, id)
						agree++
					}
				}
				require.Positive(t, agree)
			})
		})
	}
}

// newestSnapshot returns the index of a coordinator's newest snapshot, or 0 if it has none.
func newestSnapshot(dataDir string) (newest uint64) {
	dirs, _ := filepath.Glob(filepath.Join(dataDir, "raft", "snapshots", "snapshots", "*-*-*"))
	for _, dir := range dirs {
		if fields := strings.Split(filepath.Base(dir), "-"); !strings.HasSuffix(dir, ".tmp") { // term, index, time
			newest = max(newest, indexIn(fields[1]))
		}
	}
	return newest
}

func TestVerify_damage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startClusterOnFiles(t, 1, nil)
		c.write("c1")
		dir := c.members["c1"].config.DataDir
		c.kill("c1")
		r, err := recovery.Verify(t.Context(), dir, "", 0)
		require.NoError(t, err)
		require.True(t, r.Sound(), r.Flaws)
		path := filepath.Join(dir, "raft", "raft.db")
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, raw[:len(raw)/2], 0o600))
		r, err = recovery.Verify(t.Context(), dir, "", 0)
		require.NoError(t, err)
		require.False(t, r.Sound())
	})
}
