package raftnode

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// countingStream counts the writes to the connections that a replica dials.
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

// A leader that commits nothing must send few messages, and yet followers must learn soon when an entry is committed.
func TestPacing_aQuietLeaderSpeaksSeldom(t *testing.T) {
	written := map[string]*atomic.Int64{"c1": {}, "c2": {}, "c3": {}}
	tune := func(id string, cfg *Config) { cfg.Stream = countingStream{cfg.Stream, written[id]} }
	runCluster(t, 3, tune, func(t *testing.T, c *cluster) {
		leader := c.leader()
		for range 3 {
			time.Sleep(5 * time.Second)
			before := written[leader.cfg.ID].Load()
			time.Sleep(10 * time.Second)
			// The leader sends each follower a heartbeat every 40 to 80 ms.
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
