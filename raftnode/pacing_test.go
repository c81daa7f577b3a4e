package raftnode

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/raftnode/hostlog"
	"github.com/mindcoordinator/mind/raftnode/memnet"
)

// slow sets the timeout of every replica, as answers after half of it would. It stays until the cluster was calm for 20
// s.
func (c *cluster) slow(timeout time.Duration) {
	for _, n := range c.nodes {
		n.slow(timeout)
	}
}

func (n *Node) slow(timeout time.Duration) {
	n.pacing.mu.Lock()
	defer n.pacing.mu.Unlock()
	n.pacing.pace.Lengthen(time.Now(), timeout)
	n.pacing.tell()
}

// leads reports whether a replica is raft's leader.
func leads(n *Node) bool { return n.raft.State() == raft.Leader }

// A leader must lead as long as its followers would wait for it, and no longer.
func TestPacing_theLeaseOfALeader(t *testing.T) {
	for timeout, goesOn := range map[time.Duration]time.Duration{
		400 * time.Millisecond:  300 * time.Millisecond,
		3200 * time.Millisecond: 3 * time.Second,
	} {
		t.Run(timeout.String(), func(t *testing.T) {
			runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
				leader := c.leader()
				time.Sleep(5 * time.Second)
				c.slow(timeout)
				c.net.Isolate(addrOf(leader.cfg.ID))
				time.Sleep(goesOn)
				require.True(t, leads(leader), "after %v without the others", goesOn)
				time.Sleep(time.Second)
				require.False(t, leads(leader), "after %v without the others", goesOn+time.Second)
			})
		})
	}
}

// A leader with a long timeout must send heartbeats often enough for a follower that has just started and uses the
// base.
func TestPacing_aLeaderSpeaksAtTheBase(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		time.Sleep(5 * time.Second)
		term := leader.raft.CurrentTerm()
		c.slow(6400 * time.Millisecond)
		require.Equal(t, leader.cfg.HeartbeatTimeout, leader.raft.ReloadableConfig().HeartbeatTimeout)
		follower := c.others(leader.cfg.ID)[0]
		c.stop(follower)
		restarted := c.start(follower, c.ids)
		require.Equal(t, restarted.cfg.HeartbeatTimeout, restarted.Timeout())
		stands := false
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			stands = stands || restarted.raft.State() == raft.Candidate
		}
		require.False(t, stands, "it stood for election")
		require.True(t, leads(leader))
		require.Equal(t, term, leader.raft.CurrentTerm())
	})
}

// Followers that wait for a leader that has stepped down vote for no other replica, so that replica must stand for
// election again soon.
func TestPacing_whoSteppedDownStandsFirst(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		leader := c.leader()
		time.Sleep(5 * time.Second)
		c.slow(25600 * time.Millisecond)
		leader.slow(6400 * time.Millisecond)
		c.net.Isolate(addrOf(leader.cfg.ID))
		require.Eventually(t, func() bool { return !leads(leader) }, 7*time.Second, time.Millisecond)
		c.net.Heal()
		time.Sleep(2 * time.Second)
		require.True(t, leads(leader), "two seconds later")
	})
}

// After a cut, answers arrive that are seconds old. They must not count as delays.
func TestPacing_cutsAreNoDelays(t *testing.T) {
	runCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		for range 10 {
			leader := c.leader()
			c.net.Isolate(addrOf(leader.cfg.ID))
			c.leader(c.others(leader.cfg.ID)...)
			time.Sleep(300 * time.Millisecond)
			c.net.Heal()
			time.Sleep(500 * time.Millisecond)
			for id, n := range c.nodes {
				require.Equal(t, n.cfg.HeartbeatTimeout, n.Timeout(), id)
			}
		}
	})
}

// Followers must keep connections open, so that an election needs no handshake.
func TestKeepLinks_anElectionNeedsNoHandshake(t *testing.T) {
	var closed atomic.Bool
	tune := func(_ string, cfg *Config) { cfg.Stream = &noDials{cfg.Stream, &closed} }
	runCluster(t, 3, tune, func(t *testing.T, c *cluster) {
		leader := c.leader()
		time.Sleep(5 * time.Second)
		closed.Store(true)
		c.net.Isolate(addrOf(leader.cfg.ID))
		var others []*Node
		for _, id := range c.others(leader.cfg.ID) {
			others = append(others, c.nodes[id])
		}
		require.Eventually(t, func() bool { return leads(others[0]) || leads(others[1]) }, 10*time.Second, time.Millisecond)
		closed.Store(false)
	})
}

// noDials refuses new connections while closed is set.
type noDials struct {
	raft.StreamLayer
	closed *atomic.Bool
}

func (s *noDials) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if s.closed.Load() {
		return nil, errors.New("no new connections")
	}
	return s.StreamLayer.Dial(to, timeout)
}

// A server that is not a member yet has no term. A probe must not make it believe in a leader.
func TestKeepLinks_tellsNewcomersNothing(t *testing.T) {
	runCluster(t, 1, nil, func(t *testing.T, c *cluster) {
		newcomer := c.start("c2", nil)
		require.Zero(t, newcomer.raft.CurrentTerm())
		founder := c.leader()
		_ = founder.transport.probe("c2", raft.ServerAddress(addrOf("c2")), founder.raft.CurrentTerm())
		id, addr := newcomer.Leader()
		require.Empty(t, id+addr)
		require.Zero(t, newcomer.raft.CurrentTerm())
	})
}

func TestLinks_deadlinesAreThoseOfASlowMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{}.withDefaults()
		p := newPacing(cfg, cfg.Logger)
		l := &links{pacing: p}
		soon, late := time.Now().Add(3*time.Second), time.Now().Add(time.Minute)
		require.Equal(t, soon, l.atLeast(soon))
		require.True(t, l.atLeast(time.Time{}).IsZero())
		p.now.Store(int64(6400 * time.Millisecond))
		require.Equal(t, time.Now().Add(12800*time.Millisecond), l.atLeast(soon))
		require.Equal(t, late, l.atLeast(late))
		require.True(t, l.atLeast(time.Time{}).IsZero())
	})
}

// An answer of a later term must not count as a delay: it shows that the others have gone on without this replica, not
// that they are slow.
func TestTransport_whichAnswersCountAsSlow(t *testing.T) {
	const term = 5 // the term of the messages
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}
	b := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("b")}
	heartbeat := func(tr *transport) error {
		return tr.AppendEntries("b", "b:1", &raft.AppendEntriesRequest{RPCHeader: header, Term: term}, &raft.AppendEntriesResponse{})
	}
	preVote := func(tr *transport) error {
		return tr.RequestPreVote("b", "b:1", &raft.RequestPreVoteRequest{RPCHeader: header, Term: term + 1}, &raft.RequestPreVoteResponse{})
	}
	vote := func(tr *transport) error {
		return tr.RequestVote("b", "b:1", &raft.RequestVoteRequest{RPCHeader: header, Term: term}, &raft.RequestVoteResponse{})
	}
	probe := func(tr *transport) error { return tr.probe("b", "b:1", term) }
	for name, tc := range map[string]struct {
		ask    func(*transport) error
		answer any
		counts bool
	}{
		"a follower's":                      {heartbeat, &raft.AppendEntriesResponse{RPCHeader: b, Term: term, Success: true}, true},
		"of one who follows another leader": {heartbeat, &raft.AppendEntriesResponse{RPCHeader: b, Term: term + 1}, false},
		"a pre-vote":                        {preVote, &raft.RequestPreVoteResponse{RPCHeader: b, Term: term + 1, Granted: true}, true},
		"no pre-vote":                       {preVote, &raft.RequestPreVoteResponse{RPCHeader: b, Term: term}, true},
		"no pre-vote, in the term of another leader": {preVote, &raft.RequestPreVoteResponse{RPCHeader: b, Term: term + 1}, false},
		"a vote":                        {vote, &raft.RequestVoteResponse{RPCHeader: b, Term: term, Granted: true}, true},
		"no vote":                       {vote, &raft.RequestVoteResponse{RPCHeader: b, Term: term}, true},
		"no vote, but a later term":     {vote, &raft.RequestVoteResponse{RPCHeader: b, Term: term + 1}, false},
		"to a probe":                    {probe, &raft.AppendEntriesResponse{RPCHeader: b, Term: term}, true},
		"to a probe, but a later term":  {probe, &raft.AppendEntriesResponse{RPCHeader: b, Term: term + 1}, false},
		"to a probe, of one who is new": {probe, &raft.AppendEntriesResponse{RPCHeader: b}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := memnet.New()
				open := func(addr string) *transport {
					stream, err := network.Listen(addr)
					require.NoError(t, err)
					cfg := Config{Stream: &slowToDial{stream}}.withDefaults()
					tr, err := openTransport(cfg, newPacing(cfg, cfg.Logger), hostlog.New(cfg.Logger))
					require.NoError(t, err)
					return tr
				}
				a, b := open("a:1"), open("b:1")
				a.pacing.trips.Voters = []string{"b:1"}
				go func() {
					rpc := <-b.Consumer()
					time.Sleep(time.Second)
					rpc.Respond(tc.answer, nil)
				}()
				require.NoError(t, tc.ask(a))
				var want time.Duration
				if tc.counts {
					want = time.Second // without the time of dialling
				}
				require.Equal(t, want, a.pacing.pace.Longest())
				require.NoError(t, errors.Join(a.Close(), b.Close()))
			})
		})
	}
}

// slowToDial needs two seconds for a new connection.
type slowToDial struct{ raft.StreamLayer }

func (s *slowToDial) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	time.Sleep(2 * time.Second)
	return s.StreamLayer.Dial(to, timeout)
}
