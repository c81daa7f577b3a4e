package coordinator

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/recovery"
)

// saved saves the state from a coordinator into a file.
func (c *cluster) saved(at string, more ...string) string {
	c.t.Helper()
	stream, err := c.operators(at).SaveSnapshot(c.ctx("", "", more...), &v1.SaveSnapshotRequest{})
	require.NoError(c.t, err)
	path := filepath.Join(c.t.TempDir(), "saved")
	file, err := os.Create(path)
	require.NoError(c.t, err)
	defer file.Close()
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return path
		}
		require.NoError(c.t, err)
		_, err = file.Write(part.GetData())
		require.NoError(c.t, err)
	}
}

// The state can be saved at any coordinator, and a new cluster begins from it when all disks are lost.
func TestSnapshot_savedAndRestored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startClusterOnFiles(t, 3, nil)
		agent := c.agent("n1", 2)
		at := c.follower()
		running, waiting := c.submit(at, sleeper(1, 0)), c.submit(at, patient(sleeper(8, 0)))
		c.awaitStatus(at, running, v1.JobStatus_TRAINING)
		file := c.saved(at)
		about, err := recovery.Inspect(file)
		require.NoError(t, err)
		require.Empty(t, about.Broken)
		require.Equal(t, at, about.By)
		require.False(t, about.Stale)
		require.Equal(t, map[string]int{"RUNNING": 1, "QUEUED": 1}, about.Jobs)
		require.Equal(t, 1, about.Nodes)
		require.Len(t, about.Members, 3)
		records, err := c.auditLog(at).ListAuditRecords(c.ctx("t1", "", status.KeyOperator, "1"), &v1.ListAuditRecordsRequest{TenantId: "*", Action: "snapshot.save"})
		require.NoError(t, err)
		require.Len(t, records.GetRecords(), 1, "it is audited before it is sent")
		require.Equal(t, at, records.GetRecords()[0].GetObject())
		lost := c.submit(at, sleeper(1, 0))

		agent.close()
		for _, id := range c.ids {
			c.kill(id)
			c.members[id].config.DataDir = t.TempDir()
		}
		_, err = recovery.PrepareRestore(filepath.Join(t.TempDir(), "none"), c.members["c2"].config.DataDir)
		require.ErrorIs(t, err, os.ErrNotExist)
		for _, id := range []string{"c2", "c3"} { // Two have the saved state: the first of the list begins.
			_, err = recovery.PrepareRestore(file, c.members[id].config.DataDir)
			require.NoError(t, err)
		}
		for _, id := range c.ids {
			c.start(id)
		}
		require.Equal(t, "c2", c.leader())
		_, err = recovery.PrepareRestore(file, c.members["c2"].config.DataDir)
		require.ErrorContains(t, err, "holds the data of a coordinator")

		require.Equal(t, v1.JobState_RUNNING, c.get("c2", running).GetState())
		require.Contains(t, c.get("c2", waiting).GetReason(), "the job waits for these nodes to say what they run: n1")
		_, err = c.jobs("c2").GetJob(c.ctx("t1", ""), &v1.GetJobRequest{JobId: lost})
		requireCode(t, codes.NotFound, err)
		require.Greater(t, len(c.submit("c2", sleeper(1, 0))), len(lost), "ids begin beyond all that may have been given out")
		for _, id := range []string{"c1", "c3"} {
			c.eventually(id+" does not join by itself", func() bool {
				resp, err := c.operators("c2").ListPeers(c.ctx("", ""), &v1.ListPeersRequest{})
				require.NoError(t, err)
				return slices.ContainsFunc(resp.GetPeers(), func(p *v1.Peer) bool { return p.GetId() == id && p.GetHealth() == "answers" })
			})
		}
		require.FileExists(t, filepath.Join(c.members["c3"].config.DataDir, recovery.RestoreFile+".unused"))
	})
}

// Without a leader a coordinator's state can still be saved.
func TestSnapshot_withoutALeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startClusterOnFiles(t, 3, func(config *Config) { config.Timers.LeaderWait = 100 * time.Millisecond })
		at := c.leader()
		c.submit(at, sleeper(1, 0))
		for _, other := range c.ids {
			if other != at {
				c.kill(other)
			}
		}
		c.eventually("what is not written down is handed out", func() bool {
			stream, err := c.operators(at).SaveSnapshot(c.ctx("", ""), &v1.SaveSnapshotRequest{})
			require.NoError(t, err)
			_, err = stream.Recv()
			return grpcstatus.Code(err) == codes.Unavailable
		})
		about, err := recovery.Inspect(c.saved(at, status.KeyConsistency, status.Stale))
		require.NoError(t, err)
		require.True(t, about.Stale)
		require.Equal(t, map[string]int{"QUEUED": 1}, about.Jobs)
	})
}
