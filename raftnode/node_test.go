package raftnode

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNode_everyCallerGetsItsOwnResult(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		const callers, each = 64, 16
		leader := c.leader()
		var mu sync.Mutex
		seen := map[int]bool{}
		var last uint64
		var wg sync.WaitGroup
		for g := range callers {
			wg.Go(func() {
				for i := range each {
					command := fmt.Sprintf("%d-%d", g, i)
					a, err := leader.Propose(t.Context(), []byte(command))
					if err != nil {
						t.Errorf("propose %s: %v", command, err)
						return
					}
					r := a.Result.(chainResult)
					mu.Lock()
					if r.Command != command || seen[r.Nth] {
						t.Errorf("propose %s: answered %+v, position seen: %v", command, r, seen[r.Nth])
					}
					seen[r.Nth] = true
					last = max(last, a.Index)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.Len(t, c.agree(last).Commands, callers*each)
		require.Less(t, last, uint64(callers*each), "nothing was packed together")
	})
}

func TestNode_oneThreeOrFive(t *testing.T) {
	for _, count := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			runCluster(t, count, nil, func(t *testing.T, c *cluster) {
				c.agree(c.propose(c.leader(), "x").Index)
				require.Len(t, c.leader().Peers(), count)
				for id := range c.nodes {
					require.Equal(t, c.ids, c.sms[id].voters)
				}
			})
		})
	}
}

func TestNode_followerSaysWhoLeads(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		for _, id := range c.others(leader.cfg.ID) {
			_, err := c.nodes[id].Propose(t.Context(), []byte("x"))
			require.ErrorIs(t, err, ErrNotSent)
			var not *NotLeaderError
			require.ErrorAs(t, err, &not)
			require.Equal(t, NotLeaderError{LeaderID: leader.cfg.ID, LeaderAddr: addrOf(leader.cfg.ID)}, *not)
			_, _, err = c.nodes[id].ReadIndex(t.Context())
			require.ErrorAs(t, err, &not)
		}
	})
}

func TestNode_survivesTheDeathOfTheLeader(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		for i := range 10 {
			leader := c.leader()
			c.agree(c.propose(leader, fmt.Sprint("before ", i)).Index)
			died := time.Now()
			c.net.Isolate(addrOf(leader.cfg.ID)) // fails without a shutdown
			next := c.leader(c.others(leader.cfg.ID)...)
			c.propose(next, fmt.Sprint("after ", i))
			require.Less(t, time.Since(died), 2*time.Second)
			c.net.Heal()
			require.Eventually(t, func() bool { return leader.raft.State().String() == "Follower" }, time.Minute, 10*time.Millisecond)
		}
		require.Len(t, c.agree(c.propose(c.leader(), "end").Index).Commands, 21)
	})
}

func TestNode_writeOfACutOffLeaderIsUnknown(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		old := c.leader()
		c.propose(old, "first")
		c.net.Isolate(addrOf(old.cfg.ID))
		_, err := old.Propose(t.Context(), []byte("cut off"))
		require.ErrorIs(t, err, ErrUnknownOutcome)
		require.NotErrorIs(t, err, ErrNotSent)
		_, _, err = old.ReadIndex(t.Context())
		require.Error(t, err)
		_, err = old.Propose(t.Context(), []byte("later"))
		require.ErrorIs(t, err, ErrNotSent)

		next := c.leader(c.others(old.cfg.ID)...)
		c.propose(next, "second")
		c.net.Heal()
		state := c.agree(c.propose(next, "third").Index)
		require.Equal(t, []string{"first", "second", "third"}, state.Commands)
	})
}

func TestNode_restartsFromDisk(t *testing.T) {
	for _, store := range []string{StoreBolt, StoreWAL} {
		t.Run(store, func(t *testing.T) {
			runCluster(t, 3, func(_ string, cfg *Config) { cfg.LogStore = store }, func(t *testing.T, c *cluster) {
				for i := range 20 {
					c.propose(c.leader(), fmt.Sprint(i))
				}
				before := c.agree(c.leader().AppliedIndex())
				c.stopAll()
				clear(c.nodes)
				for _, id := range c.ids {
					c.start(id, c.ids)
				}
				after := c.agree(c.propose(c.leader(), "again").Index)
				require.Equal(t, append(before.Commands, "again"), after.Commands)
			})
		})
	}
}

func TestNode_laggingReplicaIsBroughtUpBySnapshot(t *testing.T) {
	tune := func(_ string, cfg *Config) { cfg.TrailingLogs = 1 }
	runCluster(t, 3, tune, func(t *testing.T, c *cluster) {
		leader := c.leader()
		lagging := c.others(leader.cfg.ID)[0]
		c.stop(lagging)
		for i := range 50 {
			c.propose(leader, fmt.Sprint(i))
		}
		require.NoError(t, leader.TakeSnapshot(t.Context()))
		time.Sleep(time.Millisecond) // virtual; the names of snapshots have the time
		require.NoError(t, leader.TakeSnapshot(t.Context()), "nothing new is no error")
		at := c.propose(leader, "after").Index
		c.start(lagging, c.ids)
		require.Len(t, c.agree(at).Commands, 51)

		// A restarted replica begins with the snapshot.
		c.stop(lagging)
		n := c.start(lagging, c.ids)
		require.NotZero(t, n.AppliedIndex())
		c.agree(at)
	})
}

func TestNode_joinAndLeave(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		c.propose(leader, "x")
		c.start("c4", nil)
		c.start("c5", nil)
		require.NoError(t, leader.AddVoter(t.Context(), "c4", addrOf("c4")))
		require.NoError(t, leader.AddVoter(t.Context(), "c5", addrOf("c5")))
		c.agree(c.propose(leader, "five").Index)
		require.Len(t, leader.Peers(), 5)
		require.Equal(t, []string{"c1", "c2", "c3", "c4", "c5"}, c.sms["c5"].voters)

		follower := c.others(leader.cfg.ID)[0]
		require.NoError(t, leader.RemoveServer(t.Context(), follower))
		c.stop(follower)
		c.agree(c.propose(leader, "four").Index)

		var not *NotLeaderError
		require.ErrorAs(t, c.nodes[c.others(leader.cfg.ID)[0]].RemoveServer(t.Context(), "c5"), &not)
		require.ErrorIs(t, leader.AddVoter(t.Context(), "", ""), ErrNotSent)

		// A leader that removes itself stops, and the others go on.
		require.NoError(t, leader.RemoveServer(t.Context(), leader.cfg.ID))
		<-leader.Done()
		require.ErrorIs(t, leader.Err(), ErrRemoved)
		delete(c.nodes, leader.cfg.ID)
		next := c.leader()
		require.Len(t, next.Peers(), 3)
		c.agree(c.propose(next, "three").Index)
	})
}

func TestNode_handsLeadershipOverAtShutdown(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		others := c.others(leader.cfg.ID)
		c.agree(c.propose(leader, "x").Index)
		began := time.Now()
		c.stop(leader.cfg.ID)
		c.propose(c.leader(others...), "y")
		require.Less(t, time.Since(began), 200*time.Millisecond, "an election took place, not a transfer")
		_, err := leader.Propose(t.Context(), []byte("z"))
		require.ErrorIs(t, err, ErrStopped)
		_, _, err = leader.ReadIndex(t.Context())
		require.ErrorIs(t, err, ErrStopped)
		require.ErrorIs(t, leader.WaitApplied(t.Context(), 1<<40), ErrStopped)
		require.NoError(t, leader.Err())
	})
}

// Leadership is transferred to a voter that answers, whichever voter does not.
func TestNode_transferToWhoAnswers(t *testing.T) {
	for away := range 2 {
		runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
			leader := c.leader()
			others := c.others(leader.cfg.ID)
			c.stop(others[away])
			time.Sleep(200 * time.Millisecond) // virtual; enough for some heartbeats
			require.NoError(t, leader.Transfer(t.Context(), ""))
			require.Equal(t, others[1-away], c.leader(others[1-away]).cfg.ID)
		})
	}
}

func TestNode_transferToANamedReplica(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		to := c.others(leader.cfg.ID)[1]
		c.agree(c.propose(leader, "x").Index)
		require.NoError(t, leader.Transfer(t.Context(), to))
		require.Equal(t, to, c.leader(to).cfg.ID)
		require.ErrorIs(t, leader.Transfer(t.Context(), "nobody"), ErrNotSent)
		var not *NotLeaderError
		require.ErrorAs(t, leader.Transfer(t.Context(), to), &not)
	})
}

func TestNode_leadRunsOncePerTermAndEndsWithIt(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		running := map[string]bool{}
		var terms []uint64
		var wg sync.WaitGroup
		for id, n := range c.nodes {
			wg.Go(func() {
				n.Lead(ctx, func(ctx context.Context, term uint64) {
					mu.Lock()
					running[id] = true
					terms = append(terms, term)
					mu.Unlock()
					<-ctx.Done()
					mu.Lock()
					delete(running, id)
					mu.Unlock()
				})
			})
		}
		for range 3 {
			leader := c.leader()
			synctest.Wait()
			mu.Lock()
			require.Equal(t, map[string]bool{leader.cfg.ID: true}, running)
			mu.Unlock()
			c.net.Isolate(addrOf(leader.cfg.ID))
			c.leader(c.others(leader.cfg.ID)...)
			c.net.Heal()
			require.Eventually(t, func() bool { return !leader.IsLeader() }, time.Minute, time.Millisecond)
		}
		cancel()
		wg.Wait()
		require.Empty(t, running)
		require.GreaterOrEqual(t, len(terms), 3)
		for i := 1; i < len(terms); i++ {
			require.Greater(t, terms[i], terms[i-1])
		}
	})
}

func TestNode_leaderChangesAreSignalled(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		watcher := c.nodes[c.others(leader.cfg.ID)[0]]
		changes, stop := watcher.LeaderChanges()
		defer stop()
		c.net.Isolate(addrOf(leader.cfg.ID))
		for {
			<-changes
			if id, _ := watcher.Leader(); id != "" && id != leader.cfg.ID {
				return
			}
		}
	})
}

func TestOpen_refusesABadConfiguration(t *testing.T) {
	good := Config{ID: "c1", Dir: "d", BindAddr: "127.0.0.1:0", Pack: packChain, Bootstrap: []Server{{"c1", "a:1"}}}
	require.NoError(t, good.withDefaults().Validate())
	for name, spoil := range map[string]func(*Config){
		"no id":                func(c *Config) { c.ID = "" },
		"no directory":         func(c *Config) { c.Dir = "" },
		"no packing":           func(c *Config) { c.Pack = nil },
		"no address":           func(c *Config) { c.BindAddr = "" },
		"two servers":          func(c *Config) { c.Bootstrap = append(c.Bootstrap, Server{"c2", "b:1"}) },
		"somebody else":        func(c *Config) { c.ID = "c9" },
		"no server address":    func(c *Config) { c.Bootstrap = []Server{{"c1", ""}} },
		"one server twice":     func(c *Config) { c.Bootstrap = []Server{{"c1", "a:1"}, {"c1", "b:1"}, {"c2", "c:1"}} },
		"unknown store":        func(c *Config) { c.LogStore = "paper" },
		"lease over heartbeat": func(c *Config) { c.LeaderLease = time.Hour },
		"election below":       func(c *Config) { c.ElectionTimeout = time.Millisecond },
		"no backlog":           func(c *Config) { c.MaxBacklog = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			spoil(&cfg)
			_, err := Open(cfg, &chain{})
			require.Error(t, err)
		})
	}
}
