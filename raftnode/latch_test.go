package raftnode

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

var errDisk = errors.New("disk is broken")

// brokenDisk fails the next write if failNext is set. The write after that would succeed again, as after a failed sync
// on a real disk.
type brokenDisk struct {
	Store
	failNext atomic.Bool
	writes   atomic.Int64
}

func (b *brokenDisk) write(do func() error) error {
	b.writes.Add(1)
	if b.failNext.CompareAndSwap(true, false) {
		return errDisk
	}
	return do()
}

func (b *brokenDisk) StoreLogs(l []*raft.Log) error {
	return b.write(func() error { return b.Store.StoreLogs(l) })
}

func (b *brokenDisk) StoreLog(l *raft.Log) error {
	return b.write(func() error { return b.Store.StoreLog(l) })
}

func (b *brokenDisk) SetUint64(k []byte, v uint64) error {
	return b.write(func() error { return b.Store.SetUint64(k, v) })
}

func withBrokenDisks(disks map[string]*brokenDisk) func(string, *Config) {
	return func(id string, cfg *Config) {
		cfg.WrapStore = func(s Store) Store {
			disks[id] = &brokenDisk{Store: s}
			return disks[id]
		}
	}
}

func TestLatch_leaderWhoseDiskFailsStopsForGood(t *testing.T) {
	disks := map[string]*brokenDisk{}
	runCluster(t, 3, withBrokenDisks(disks), func(t *testing.T, c *cluster) {
		leader := c.leader()
		id := leader.cfg.ID
		others := c.others(id)
		c.agree(c.propose(leader, "before").Index)
		disks[id].failNext.Store(true)
		_, err := leader.Propose(t.Context(), []byte("into the broken disk"))
		require.ErrorIs(t, err, ErrUnknownOutcome)
		<-leader.Done()
		require.ErrorIs(t, leader.Err(), errDisk)
		written := disks[id].writes.Load()
		delete(c.nodes, id)

		next := c.leader(others...)
		at := c.propose(next, "after").Index
		require.Equal(t, []string{"before", "after"}, c.agree(at).Commands)
		require.Equal(t, written, disks[id].writes.Load(), "it wrote on")

		// The replica starts again on a disk that works.
		c.start(id, c.ids)
		c.agree(at)
	})
}

func TestLatch_followerWhoseDiskFailsStops(t *testing.T) {
	disks := map[string]*brokenDisk{}
	runCluster(t, 3, withBrokenDisks(disks), func(t *testing.T, c *cluster) {
		leader := c.leader()
		id := c.others(leader.cfg.ID)[0]
		follower := c.nodes[id]
		disks[id].failNext.Store(true)
		c.propose(leader, "x")
		<-follower.Done()
		require.ErrorIs(t, follower.Err(), errDisk)
		delete(c.nodes, id)
		c.agree(c.propose(leader, "the other two go on").Index)
	})
}

func TestLatch_termThatCannotBeWrittenStopsTheNodeNotTheProcess(t *testing.T) {
	disks := map[string]*brokenDisk{}
	runCluster(t, 3, withBrokenDisks(disks), func(t *testing.T, c *cluster) {
		leader := c.leader()
		c.agree(c.propose(leader, "x").Index)
		others := c.others(leader.cfg.ID)
		disks[others[0]].failNext.Store(true)
		disks[others[1]].failNext.Store(true)
		c.net.Isolate(addrOf(leader.cfg.ID)) // the others stand for election, and write their new terms
		// When one of them has stopped, the other cannot win an election.
		first := c.nodes[others[0]]
		select {
		case <-first.Done():
		case <-c.nodes[others[1]].Done():
			first = c.nodes[others[1]]
		}
		require.ErrorIs(t, first.Err(), errDisk)
	})
}

func TestOpen_diskThatFailsAtOnce(t *testing.T) {
	broken := &brokenDisk{}
	broken.failNext.Store(true)
	_, err := Open(Config{
		ID: "c1", Dir: t.TempDir(), BindAddr: "127.0.0.1:0", Pack: packChain, Bootstrap: []Server{{"c1", "127.0.0.1:1"}},
		WrapStore: func(s Store) Store { broken.Store = s; return broken },
	}, &chain{})
	require.Error(t, err)
}
