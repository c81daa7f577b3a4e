package raftnode

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A replica at the address of another one acknowledges nothing in its place, and does not vote for it: its disk is not the
// other's. A write that only it and the leader have would be lost.
func TestTransport_anotherReplicaAtAnAddressIsNotTheMember(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		followers := c.others(leader.cfg.ID)
		kept, dead := followers[0], followers[1]
		c.propose(leader, "before")
		c.stop(dead)
		stream, err := c.net.Listen(addrOf(dead))
		require.NoError(t, err)
		impostor, err := Open(Config{ID: "c9", Dir: filepath.Join(c.dir, "c9"), Stream: stream, Pack: packChain, Logger: leader.cfg.Logger}, &chain{})
		require.NoError(t, err)
		time.Sleep(time.Minute) // virtual: nothing must come, however long the leader tries to reach the member
		require.Zero(t, impostor.raft.LastIndex(), "entries for the member went to it")

		c.stop(kept)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err = leader.Propose(ctx, []byte("nobody else has it"))
		require.Error(t, err, "a write with one of three members")
		require.Eventually(t, func() bool { return !leader.IsLeader() }, time.Minute, 5*time.Millisecond, "the impostor acknowledges it as the leader")

		require.NoError(t, impostor.Shutdown(t.Context()))
		c.start(dead, c.ids)
		c.start(kept, c.ids)
		a := c.propose(c.leader(), "after")
		require.Contains(t, c.agree(a.Index).Commands, "after")
	})
}
