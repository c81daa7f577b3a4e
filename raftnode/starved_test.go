package raftnode

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/raftnode/memnet"
	"github.com/mindcoordinator/mind/raftnode/pace"
)

// starved is a machine that is 20 times slower than a busy one. On a busy machine a message takes 2 to 25 ms from the
// raft of one replica to that of another, most of it waiting for a processor, and a write to disk takes 1 to 10 ms. On
// the starved machine it is 40 to 500 ms and 20 to 200 ms. A new connection needs four messages more, for TCP and TLS.
// So an answer takes up to 1.2 s, the first one on a connection up to 3 s, and a vote, with three writes to disk, half
// a second more.
type starved struct {
	mu   sync.Mutex
	rand *rand.Rand
	slow bool
}

func (s *starved) between(least, most time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := least + time.Duration(s.rand.Int64N(int64(most-least)))
	if !s.slow {
		d /= 20
	}
	return d
}

func (s *starved) become(slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = slow
}

func (s *starved) hop() time.Duration { return s.between(40*time.Millisecond, 500*time.Millisecond) }

func (s *starved) write() time.Duration { return s.between(20*time.Millisecond, 200*time.Millisecond) }

// starvedStream is the machine's network.
type starvedStream struct {
	raft.StreamLayer
	machine *starved
}

func (l *starvedStream) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	var handshake time.Duration
	for range 4 {
		handshake += l.machine.hop()
	}
	time.Sleep(min(handshake, timeout))
	if handshake >= timeout {
		return nil, os.ErrDeadlineExceeded
	}
	return l.StreamLayer.Dial(to, timeout-handshake)
}

// starvedStore is the machine's disk: a store in memory with its delays.
type starvedStore struct {
	*raft.InmemStore
	machine *starved
}

func (s *starvedStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

func (s *starvedStore) StoreLogs(l []*raft.Log) error {
	time.Sleep(s.machine.write())
	return s.InmemStore.StoreLogs(l)
}

func (s *starvedStore) Set(k, v []byte) error {
	time.Sleep(s.machine.write())
	return s.InmemStore.Set(k, v)
}

func (s *starvedStore) SetUint64(k []byte, v uint64) error {
	time.Sleep(s.machine.write())
	return s.InmemStore.SetUint64(k, v)
}

func (s *starvedStore) IsMonotonic() bool { return false }

func (s *starvedStore) Close() error { return nil }

// runStarved starts three replicas on a starved machine, one after the other, and runs fn.
func runStarved(t *testing.T, seed uint64, slow bool, fn func(t *testing.T, m *starved, c *cluster)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := &starved{rand: rand.New(rand.NewPCG(seed, 1)), slow: slow}
		c := &cluster{t: t, net: memnet.New(), dir: filepath.Join(dir, fmt.Sprint(seed)), nodes: map[string]*Node{}, sms: map[string]*chain{}}
		c.net.SetDelays(m.hop)
		c.tune = func(_ string, cfg *Config) {
			cfg.Stream = &starvedStream{cfg.Stream, m}
			cfg.Stores = func() (Store, raft.SnapshotStore, error) {
				return &starvedStore{raft.NewInmemStore(), m}, raft.NewInmemSnapshotStore(), nil
			}
			cfg.Logger = nil
		}
		c.ids = []string{"c1", "c2", "c3"}
		for _, id := range c.ids {
			c.start(id, c.ids)
		}
		defer c.stopAll()
		fn(t, m, c)
	})
}

// watched has the observations of leadership during a time.
type watched struct {
	reigns     int
	last       time.Duration // since the beginning, when the last term began
	leaderless time.Duration
}

// watch observes for a time which replica leads. Twice a second it has the leader write something.
func (c *cluster) watch(d time.Duration) (w watched) {
	const pace = 10 * time.Millisecond
	var ruling *period
	var writers sync.WaitGroup
	defer writers.Wait()
	for at := time.Duration(0); at < d; at += pace {
		led := false
		for _, n := range c.nodes {
			r, ok := n.ruling()
			if !ok {
				continue
			}
			led = true
			if r != ruling {
				ruling, w.last = r, at
				w.reigns++
			}
			if at%(500*time.Millisecond) == 0 {
				writers.Go(func() { _, _ = n.Propose(c.t.Context(), []byte("x")) })
			}
		}
		if !led {
			w.leaderless += pace
		}
		time.Sleep(pace) // virtual
	}
	return w
}

// Without longer timeouts no answer would arrive in time here: with 400 ms most of these clusters have no leader within
// a minute, and none keeps one.
func TestStarved_aLeaderWithinTenSecondsAndForLong(t *testing.T) {
	const seeds = 24
	late, changed := 0, 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			runStarved(t, seed, true, func(t *testing.T, _ *starved, c *cluster) {
				w := c.watch(time.Minute)
				t.Logf("%+v", w)
				if w.leaderless > 10*time.Second {
					late++
				}
				if w.reigns > 1 {
					changed++
				}
				require.Positive(t, w.reigns)
				require.Less(t, w.leaderless, 20*time.Second)
			})
		})
	}
	// Raft draws timeouts at random, and votes may be split more than once: one cluster in a hundred takes longer.
	require.LessOrEqual(t, late, 3, "of %d clusters that started", seeds)
	require.LessOrEqual(t, changed, 3, "of %d clusters that had a leader", seeds)
}

func TestStarved_comesAndGoes(t *testing.T) {
	const seeds = 6
	late := 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			runStarved(t, seed, false, func(t *testing.T, m *starved, c *cluster) {
				require.Equal(t, 1, c.watch(20*time.Second).reigns)
				for _, n := range c.nodes {
					require.Equal(t, n.cfg.HeartbeatTimeout, n.Timeout(), "nothing was slow")
				}
				m.become(true)
				w := c.watch(time.Minute)
				t.Logf("%+v", w)
				if w.leaderless > 10*time.Second {
					late++
				}
				require.LessOrEqual(t, w.reigns, 2, "the term at its start, and perhaps another one")
				require.Less(t, w.leaderless, 20*time.Second)
				for _, n := range c.nodes {
					require.Greater(t, n.Timeout(), n.cfg.HeartbeatTimeout)
				}
				m.become(false)
				require.Equal(t, 1, c.watch(pace.CalmFor+10*time.Second+5*pace.HalvePace).reigns)
				for _, n := range c.nodes {
					require.Equal(t, n.cfg.HeartbeatTimeout, n.Timeout(), "as before")
				}
			})
		})
	}
	// Raft draws timeouts at random: most of 1,200 such clusters had a leader all the time, and the slowest had one
	// after 8.1 s.
	require.LessOrEqual(t, late, 1, "of %d clusters that became slow", seeds)
}
