package raftnode

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/raftnode/recovery"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

func newReplayed() verify.Replay { return replayedChain{&chain{}} }

// recovering returns the configuration of a recovery from the data of one replica.
func (c *cluster) recovering(from string, voters ...string) recovery.Config {
	cfg := recovery.Config{
		Dir: filepath.Join(c.dir, from), New: newReplayed,
		Begin: func() []byte { return packChain(time.Time{}, [][]byte{[]byte("a new life")}) },
	}
	for _, v := range voters {
		cfg.Voters = append(cfg.Voters, recovery.Server{ID: v, Addr: addrOf(v)})
	}
	return cfg
}

// Two of three disks are lost. A new life begins with the data of the third, with indices and terms that were never
// used.
func TestRecover_oneOfThreeGoesOn(t *testing.T) {
	for _, store := range []string{StoreBolt, StoreWAL} {
		for _, snapshot := range []bool{false, true} {
			t.Run(fmt.Sprint(store, snapshot), func(t *testing.T) {
				tune := func(_ string, c *Config) { c.LogStore, c.TrailingLogs = store, 5 }
				runCluster(t, 3, tune, func(t *testing.T, c *cluster) {
					var last Applied
					for i := range 30 {
						last = c.propose(c.leader(), fmt.Sprintf("command %d", i))
					}
					c.agree(last.Index)
					if snapshot {
						require.NoError(t, c.nodes["c3"].TakeSnapshot(t.Context()))
					}
					_, err := recovery.Recover(t.Context(), c.recovering("c3", "c3"))
					require.ErrorIs(t, err, verify.ErrInUse)
					for _, id := range []string{"c1", "c2", "c3"} {
						c.stop(id)
					}
					for _, lost := range []string{"c1", "c2"} {
						require.NoError(t, os.RemoveAll(filepath.Join(c.dir, lost)))
					}
					before := verified(t, filepath.Join(c.dir, "c3"))
					require.Equal(t, []verify.Member{{ID: "c1", RaftAddr: addrOf("c1"), Voter: true}, {ID: "c2", RaftAddr: addrOf("c2"), Voter: true}, {ID: "c3", RaftAddr: addrOf("c3"), Voter: true}}, before.Members)
					done, err := recovery.Recover(t.Context(), c.recovering("c3", "c3"))
					require.NoError(t, err)
					require.Equal(t, "a new life", done.Result.(chainResult).Command)
					require.Greater(t, done.Index, last.Index)
					require.Equal(t, uint64(time.Now().Unix()), done.Term)
					require.Equal(t, before.State, verified(t, done.Kept).State, "what was before is kept")
					require.True(t, verified(t, filepath.Join(c.dir, "c3")).Sound())

					c.start("c3", []string{"c1", "c2", "c3"})
					leader := c.leader()
					now := c.propose(leader, "and on")
					require.Greater(t, now.Index, done.Index)
					require.Greater(t, leader.Stats().Term, done.Term)
					commands := c.sms["c3"].copy().Commands
					require.Len(t, commands, 32)
					require.Equal(t, "a new life", commands[30])
					require.Len(t, leader.Peers(), 1)

					// The other replicas start without data, and receive all of it.
					for _, id := range []string{"c1", "c2"} {
						c.start(id, nil)
						require.NoError(t, leader.AddLearner(t.Context(), id, addrOf(id)))
						require.NoError(t, leader.AddVoter(t.Context(), id, addrOf(id)))
					}
					c.agree(c.propose(leader, "three again").Index)
				})
			})
		}
	}
}

// Each recovery must begin with a higher index than any life before it has reached.
func TestRecover_eachLifeBeginsBeyondAllBefore(t *testing.T) {
	runCluster(t, 1, nil, func(t *testing.T, c *cluster) {
		var ends []uint64
		for range 3 {
			ends = append(ends, c.propose(c.leader(), "x").Index)
			c.stop("c1")
			done, err := recovery.Recover(t.Context(), c.recovering("c1", "c1"))
			require.NoError(t, err)
			require.Greater(t, done.Index, ends[len(ends)-1])
			c.start("c1", []string{"c1"})
			time.Sleep(time.Second)
		}
	})
}

func TestRecover_refuses(t *testing.T) {
	dir, _ := written(t, StoreBolt, 5, 30)
	recovering := func(change func(*recovery.Config)) error {
		cfg := recovery.Config{Dir: dir, New: newReplayed, Voters: []recovery.Server{{ID: "c1", Addr: "a:1"}}, Begin: func() []byte { return []byte{1, 'x'} }}
		change(&cfg)
		before := bytesOf(t, dir)
		_, err := recovery.Recover(t.Context(), cfg)
		require.Equal(t, before, bytesOf(t, dir), "nothing has changed")
		return err
	}
	require.ErrorContains(t, recovering(func(c *recovery.Config) { c.Voters = nil }), "no voter")
	require.ErrorContains(t, recovering(func(c *recovery.Config) { c.Voters = append(c.Voters, recovery.Server{ID: "c2", Addr: "a:1"}) }), "twice")
	require.ErrorContains(t, recovering(func(c *recovery.Config) { c.Voters[0].Addr = "" }), "needs an id")
	require.ErrorContains(t, recovering(func(c *recovery.Config) { c.Dir = t.TempDir() }), "there is no log")
	require.ErrorContains(t, recovering(func(c *recovery.Config) { c.Begin = func() []byte { return []byte{10, 'i', 'm'} } }), "begin a new life")
	require.ErrorContains(t, recovering(func(c *recovery.Config) {
		c.Begin = func() []byte { return packChain(time.Time{}, [][]byte{[]byte("impossible")}) }
	}), "an invariant would be broken")
	snapshots, err := filepath.Glob(filepath.Join(dir, "snapshots", "snapshots", "*", "state.bin"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(snapshots[0], 10))
	require.ErrorIs(t, recovering(func(*recovery.Config) {}), recovery.ErrDamaged)
}

// saved returns a chain with some commands, and its saved state.
func saved(t *testing.T, commands int) (*chain, []byte) {
	sm := &chain{}
	for i := range commands {
		sm.Apply(uint64(i+1), packChain(time.Time{}, [][]byte{fmt.Appendf(nil, "command %d", i)}))
	}
	state, err := sm.Snapshot()
	require.NoError(t, err)
	var file bytes.Buffer
	about := recovery.Saved{Program: "v1", By: "c1", At: time.Unix(1_800_000_000, 0).UTC(), Index: uint64(commands), Term: 3, Hash: replayedChain{sm}.Hash()}
	require.NoError(t, recovery.Save(&file, about, state))
	return sm, file.Bytes()
}

func TestSaved_readsBackWhatItWrote(t *testing.T) {
	for _, commands := range []int{0, 1, 100_000} {
		sm, file := saved(t, commands)
		again := &chain{}
		about, err := recovery.Load(bytes.NewReader(file), again)
		require.NoError(t, err)
		require.Equal(t, uint64(commands), about.Index)
		require.Equal(t, "c1", about.By)
		require.Equal(t, sm.copy(), again.copy())
	}
}

// A file that was changed or cut off in any place must be refused.
func TestSaved_noticesEveryDamage(t *testing.T) {
	_, file := saved(t, 3)
	for cut := range file {
		_, err := recovery.Load(bytes.NewReader(file[:cut]), &chain{})
		require.ErrorIs(t, err, recovery.ErrNotSaved, "cut off after %d of %d bytes", cut, len(file))
	}
	for at := range file {
		damaged := bytes.Clone(file)
		damaged[at] ^= 0x20
		_, err := recovery.Load(bytes.NewReader(damaged), &chain{})
		require.Error(t, err, "byte %d of %d", at, len(file))
	}
	_, err := recovery.Load(bytes.NewReader(append(bytes.Clone(file), 0)), &chain{})
	require.ErrorIs(t, err, recovery.ErrNotSaved)
}

func TestRestore_beginsANewLife(t *testing.T) {
	_, file := saved(t, 50)
	path := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	runCluster(t, 1, nil, func(t *testing.T, c *cluster) {
		_, _, err := recovery.Restore(path, c.recovering("c1", "c1"))
		require.ErrorIs(t, err, os.ErrExist, "there is a cluster")
		about, life, err := recovery.Restore(path, c.recovering("c2", "c2"))
		require.NoError(t, err)
		require.Equal(t, uint64(50), about.Index)
		require.Greater(t, life.Index, about.Index)
		c.start("c2", []string{"c2"})
		n := c.leader("c2")
		c.propose(n, "and on")
		commands := c.sms["c2"].copy().Commands
		require.Len(t, commands, 52)
		require.Equal(t, []string{"command 49", "a new life", "and on"}, commands[49:])
	})
	require.NoError(t, os.WriteFile(path, file[:len(file)-40], 0o600))
	dir := filepath.Join(t.TempDir(), "raft")
	_, _, err := recovery.Restore(path, recovery.Config{Dir: dir, New: newReplayed, Voters: []recovery.Server{{ID: "c1", Addr: "a:1"}}, Begin: func() []byte { return nil }})
	require.ErrorIs(t, err, recovery.ErrNotSaved)
	require.NoDirExists(t, dir)
}

// The leader must know when each of the other replicas last answered, and where its log ends.
func TestPeers_whoAnswers(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		index := c.propose(leader, "x").Index
		c.agree(index)
		gone := c.others(leader.cfg.ID)[0]
		c.stop(gone)
		time.Sleep(10 * time.Second)
		for _, p := range leader.Peers() {
			if p.ID == gone {
				require.Greater(t, time.Since(p.Heard), 9*time.Second)
				continue
			}
			require.Less(t, time.Since(p.Heard), time.Second)
			require.GreaterOrEqual(t, p.LastIndex, index)
		}
		for _, p := range c.nodes[c.others(leader.cfg.ID)[0]].Peers() {
			require.Equal(t, p.ID != c.others(leader.cfg.ID)[0], p.Heard.IsZero(), "a follower hears nobody's answers")
		}
	})
}
