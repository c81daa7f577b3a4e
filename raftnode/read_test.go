package raftnode

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestReadIndex_everyReplicaShowsWhatWasAnsweredBefore(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		for i := range 20 {
			command := fmt.Sprint(i)
			c.propose(leader, command)
			index, term, err := leader.ReadIndex(t.Context())
			require.NoError(t, err)
			require.Equal(t, leader.Stats().Term, term)
			for id, n := range c.nodes {
				require.NoError(t, n.WaitApplied(t.Context(), index))
				require.Contains(t, c.sms[id].copy().Commands, command, "replica %s", id)
			}
		}
	})
}

// The log of a new leader ends with an entry that no state machine sees, so no replica can wait for its index.
// ReadIndex must not return it.
func TestReadIndex_canBeWaitedForOnAnIdleClusterAfterAnElection(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		for range 5 {
			index, _, err := leader.ReadIndex(t.Context())
			require.NoError(t, err)
			c.agree(index)
			others := c.others(leader.cfg.ID)
			require.NoError(t, leader.Transfer(t.Context(), ""))
			leader = c.leader(others...)
		}
	})
}

func TestReadIndex_concurrentReadersShareRounds(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		c.net.SetDelay(10 * time.Millisecond)
		before := leader.transport.acks.sending()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, _, err := leader.ReadIndex(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		rounds := leader.transport.acks.sending() - before
		require.LessOrEqual(t, rounds, uint64(2), "the first, and one for all who came while it ran")
		c.net.SetDelay(0)
	})
}

func TestReadIndex_contextEnds(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		c.net.Isolate(addrOf(leader.cfg.ID))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, _, err := leader.ReadIndex(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, leader.WaitApplied(ctx, 1<<40), context.DeadlineExceeded)
	})
}

// raft.VerifyLeader counts any answer that arrives after the call, even if the replica sent it before it elected
// another leader. Here such an answer arrives late: raft takes it for a confirmation, and ReadIndex must not.
func TestReadIndex_lateAnswersProveNothing(t *testing.T) {
	tune := func(id string, cfg *Config) {
		cfg.LinkTimeout = time.Minute
		cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaderLease = 2*time.Second, 2*time.Second, time.Second
		if id == "c1" { // does not notice for a while that it is deposed
			cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaderLease = 20*time.Second, 20*time.Second, 20*time.Second
		}
	}
	runCluster(t, 3, tune, func(t *testing.T, c *cluster) {
		c.agree(c.propose(c.leader(), "old").Index)
		if l := c.leader(); l.cfg.ID != "c1" {
			require.NoError(t, l.Transfer(t.Context(), "c1"))
		}
		old := c.leader("c1")
		c.agree(old.AppliedIndex())
		for _, id := range []string{"c2", "c3"} {
			c.nodes[id].transport.CloseStreams() // so that they have no connection to c1
		}
		time.Sleep(10 * time.Second) // c1 connects again
		c.net.Cut("c2:1", "c1:1")
		c.net.Cut("c3:1", "c1:1")
		early := old.raft.VerifyLeader() // heartbeats are sent, and their answers do not arrive yet
		time.Sleep(100 * time.Millisecond)
		c.net.Cut("c1:1", "c2:1")
		c.net.Cut("c1:1", "c3:1")

		next := c.leader("c2", "c3")
		c.propose(next, "new")
		require.Equal(t, raft.Leader, old.raft.State(), "c1 does not know yet")

		verified := make(chan error, 1)
		late := old.raft.VerifyLeader()
		go func() { verified <- late.Error() }()
		read := make(chan error, 1)
		go func() {
			_, _, err := old.ReadIndex(t.Context())
			read <- err
		}()
		synctest.Wait()
		voter := map[string]string{"c2": "c3", "c3": "c2"}[next.cfg.ID]
		c.net.Join(addrOf(voter), "c1:1")
		synctest.Wait()
		require.NoError(t, early.Error())
		select {
		case err := <-verified:
			require.NoError(t, err, "if raft is no longer fooled, the count of acks can go")
		default:
			require.Fail(t, "the late answer did not arrive")
		}
		select {
		case err := <-read:
			require.Fail(t, "a deposed leader answered a read", "error: %v", err)
		default:
		}
		c.net.Heal()
		var not *NotLeaderError
		require.ErrorAs(t, <-read, &not)
	})
}

func TestAcks_quorum(t *testing.T) {
	two := []string{"c2", "c3"}
	for name, tc := range map[string]struct {
		voters voterSet
		acked  map[string]ack
		want   bool
	}{
		"alone":                         {voters: voterSet{self: true}, want: true},
		"nobody answered":               {voters: voterSet{self: true, others: two}},
		"one of two others":             {voters: voterSet{self: true, others: two}, acked: map[string]ack{"c2": {5, 7}}, want: true},
		"answer to an older message":    {voters: voterSet{self: true, others: two}, acked: map[string]ack{"c2": {4, 7}}},
		"answer of another term":        {voters: voterSet{self: true, others: two}, acked: map[string]ack{"c2": {5, 6}}},
		"answer of one without a vote":  {voters: voterSet{self: true, others: two}, acked: map[string]ack{"c9": {5, 7}}},
		"one is not enough when no own": {voters: voterSet{others: two}, acked: map[string]ack{"c2": {5, 7}}},
		"two when no own":               {voters: voterSet{others: two}, acked: map[string]ack{"c2": {5, 7}, "c3": {6, 7}}, want: true},
		"one of four others":            {voters: voterSet{self: true, others: []string{"c2", "c3", "c4", "c5"}}, acked: map[string]ack{"c2": {5, 7}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &acks{}
				for id, got := range tc.acked {
					a.acknowledged(id, got.mark, got.term)
					a.acknowledged(id, got.mark-1, got.term) // older answers change nothing
					a.acknowledged(id, got.mark+9, got.term-1)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := a.quorum(ctx, 5, 7, tc.voters)
				require.Equal(t, tc.want, err == nil)
			})
		})
	}
}
