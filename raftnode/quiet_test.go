package raftnode

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// countingStream counts the messages that a replica begins or answers.
type countingStream struct {
	raft.StreamLayer
	writes *atomic.Int64
}

func (s countingStream) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c, err := s.StreamLayer.Dial(to, timeout)
	return countingConn{c, s.writes}, err
}

type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// Followers learn soon what is committed; a leader that commits nothing does not tell them so a hundred times a second.
func TestPacing_aQuietLeaderSpeaksSeldom(t *testing.T) {
	written := map[string]*atomic.Int64{"c1": {}, "c2": {}, "c3": {}}
	tune := func(id string, cfg *Config) { cfg.Stream = countingStream{cfg.Stream, written[id]} }
	runCluster(t, 3, tune, func(t *testing.T, c *cluster) {
		leader := c.leader()
		for range 3 {
			time.Sleep(5 * time.Second)
			before := written[leader.cfg.ID].Load()
			time.Sleep(10 * time.Second)
			// A heartbeat goes to each follower every 40 to 80 ms.
			require.Less(t, written[leader.cfg.ID].Load()-before, int64(500), "messages in ten quiet seconds")

			at := c.propose(leader, "x").Index
			began := time.Now()
			for _, n := range c.nodes {
				require.NoError(t, n.WaitApplied(t.Context(), at))
			}
			require.LessOrEqual(t, time.Since(began), 3*leader.cfg.CommitTimeout)
		}
	})
}
