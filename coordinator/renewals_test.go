package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

// proofs answers the renewer's question when the test says so.
type proofs struct {
	asked  int
	answer chan error
}

func (p *proofs) verify(ctx context.Context) error {
	p.asked++
	select {
	case err := <-p.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func TestRenewer_acknowledgesOnlyWhatArrivedBeforeTheProofBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table sessionTable
		table.open(t.Context(), 1)
		first, _, err := table.enter(t.Context(), "n1")
		require.NoError(t, err)
		second, _, err := table.enter(t.Context(), "n2")
		require.NoError(t, err)
		p := &proofs{answer: make(chan error)}
		direct, relayed := 0, 0
		r := &renewer{
			sessions: &table, verify: p.verify, pace: renewPace, log: slog.New(slog.DiscardHandler),
			counted: func(d, via int) { direct, relayed = direct+d, relayed+via },
		}
		var asks renewals
		due := asks.begin()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.run(ctx, due, asks.ask) }()

		first.heartbeat.Store(1)
		first.relays.put(&v1.RenewalAck{NodeId: "n9", Seq: 4})
		asks.ask()
		synctest.Wait()
		require.Equal(t, 1, p.asked)
		// What comes while the proof is on its way may have been sent to a leader that is deposed by then.
		first.heartbeat.Store(2)
		first.relays.put(&v1.RenewalAck{NodeId: "n9", Seq: 5})
		second.heartbeat.Store(7)
		asks.ask()
		p.answer <- nil
		synctest.Wait()
		require.EqualValues(t, 1, first.renewed.Load())
		require.Zero(t, second.renewed.Load())
		acks := first.relays.take()
		require.Len(t, acks, 1)
		require.EqualValues(t, 4, acks[0].GetSeq())
		require.Len(t, first.wake, 1, "the session is told")

		time.Sleep(renewPace)
		synctest.Wait()
		require.Equal(t, 2, p.asked, "one proof for all that came meanwhile")
		p.answer <- errors.New("no quorum")
		synctest.Wait()
		require.EqualValues(t, 1, first.renewed.Load(), "without a proof nothing is renewed")
		time.Sleep(renewPace)
		synctest.Wait()
		require.Equal(t, 3, p.asked, "it is tried again without being asked")
		p.answer <- nil
		synctest.Wait()
		require.EqualValues(t, 2, first.renewed.Load())
		require.EqualValues(t, 7, second.renewed.Load())
		require.Len(t, first.relays.take(), 1)
		require.Equal(t, []int{3, 2}, []int{direct, relayed})
		cancel()
		<-done
	})
}

// A task that was ordered and not launched is declared lost and replaced; a renewal through a peer must not let its node
// launch it after all (chaos/sim, seed 1155).
func TestMayRenew_nothingOfANodeThatWasDeclaredLost(t *testing.T) {
	for what, c := range map[string]struct {
		row  fsm.Node
		want bool
	}{
		"it is unreachable":     {fsm.Node{BootID: "b1", UnreachableSince: 5}, true},
		"it was declared lost":  {fsm.Node{BootID: "b1", UnreachableSince: 5, LostSince: 9}, false},
		"its machine restarted": {fsm.Node{BootID: "b0", UnreachableSince: 5}, false},
	} {
		t.Run(what, func(t *testing.T) { require.Equal(t, c.want, mayRenew(&c.row, "b1")) })
	}
}

func TestSessionTable_relayedRenewalsCountForTheLeaseAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table sessionTable
		table.open(t.Context(), 1)
		opened := time.Now()
		time.Sleep(time.Minute)
		table.condemn("n1")
		require.False(t, table.relayedFor("n1"), "a verdict may be on its way: what it takes is not renewed meanwhile")
		renewed, _, _ := table.lastRenewed("n1")
		require.Equal(t, opened, renewed)
		table.absolve("n1")
		require.True(t, table.relayedFor("n1"))
		seen, inSession, ok := table.lastSeen("n1")
		require.True(t, ok)
		require.False(t, inSession)
		require.Equal(t, opened, seen, "the node itself was not heard of")
		renewed, through, ok := table.lastRenewed("n1")
		require.True(t, ok)
		require.True(t, through)
		require.Equal(t, time.Now(), renewed)
		time.Sleep(time.Second)
		s, _, err := table.enter(t.Context(), "n1")
		require.NoError(t, err)
		_, through, _ = table.lastRenewed("n1")
		require.False(t, through, "it came back itself")
		table.leave(s)
		table.open(t.Context(), 2)
		renewed, through, _ = table.lastRenewed("n1")
		require.False(t, through)
		require.Equal(t, time.Now(), renewed, "a new reign begins with a fresh period")
	})
}

func TestSessionTable_whoIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table sessionTable
		const lately = 5 * time.Second
		table.open(t.Context(), 1)
		old, _, err := table.enter(t.Context(), "old")
		require.NoError(t, err)
		time.Sleep(settleTime)
		old.beat(1) // Only now it is sure that the agent knows of its session.
		time.Sleep(settleTime)
		require.Empty(t, table.allSettled(lately), "longer than that, not as long")
		young, _, err := table.enter(t.Context(), "young")
		require.NoError(t, err)
		young.beat(1)
		time.Sleep(time.Millisecond)
		old.hear()
		require.Equal(t, []string{"old"}, table.allSettled(lately))
		require.True(t, table.settled("old", lately))
		require.False(t, table.settled("young", lately))
		require.False(t, table.settled("absent", lately))
		time.Sleep(lately + time.Millisecond)
		require.False(t, table.settled("old", lately), "it was not heard of lately")
		_, _, err = table.enter(t.Context(), "old")
		require.NoError(t, err)
		require.False(t, table.settled("old", lately), "a new session begins anew")
	})
}

func TestAttention_silenceCountsOnlyWhileSomebodyListened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{config: Config{Timers: Timers{UnreachableAfter: 5 * time.Second}}, log: slog.New(slog.DiscardHandler)}
		s.attention.begin()
		s.sessions.open(t.Context(), 1)
		opened := time.Now()
		fresh := func() time.Time {
			at, _, _ := s.sessions.lastSeen("n1")
			return at
		}
		for range 10 {
			time.Sleep(time.Second)
			s.attention.proven(time.Now())
			require.True(t, s.listening())
		}
		require.Equal(t, opened, fresh())
		time.Sleep(3 * time.Second) // The process stands still.
		s.attention.proven(time.Now())
		require.True(t, s.listening())
		require.Equal(t, time.Now(), fresh(), "everybody has a fresh period")
		for range 2 {
			time.Sleep(time.Second)
			require.True(t, s.listening())
		}
		for range 10 { // Nobody confirms the reign.
			time.Sleep(time.Second)
			require.False(t, s.listening())
		}
		require.Equal(t, time.Now(), fresh())
		s.attention.proven(time.Now())
		require.True(t, s.listening())
		require.Zero(t, s.sessions.listened())
	})
}

func TestVotes_whatGossipSaysOfANode(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	agent := func(name string, state gossip.State) gossip.Member {
		return gossip.Member{Name: name, Role: pki.RoleAgent, State: state, Incarnation: 7, Since: start}
	}
	self := gossip.Member{Name: "c1", Role: pki.RoleCoordinator, State: gossip.Alive, Since: start}
	other := gossip.Member{Name: "c2", Role: pki.RoleCoordinator, State: gossip.Alive, Since: start}
	gone := gossip.Member{Name: "c2", Role: pki.RoleCoordinator, State: gossip.Dead, Since: start}
	for _, c := range []struct {
		name     string
		members  []gossip.Member
		after    time.Duration
		dead     bool
		inc      uint64
		liveness string
	}{
		{"alive", []gossip.Member{self, agent("n1", gossip.Alive)}, time.Hour, false, 7, "alive"},
		{"suspect is not dead", []gossip.Member{self, agent("n1", gossip.Suspect)}, time.Hour, false, 7, "suspect"},
		{"dead", []gossip.Member{self, agent("n1", gossip.Dead)}, time.Second, true, 7, "dead"},
		{"said goodbye", []gossip.Member{self, agent("n1", gossip.Left)}, time.Second, true, 7, "left"},
		{"unknown to one who knows the others", []gossip.Member{self, other}, 16 * time.Second, true, 0, "unknown"},
		{"unknown to a newcomer", []gossip.Member{self, other}, 15 * time.Second, false, 0, "unknown"},
		{"unknown to one who is alone", []gossip.Member{self, gone}, time.Hour, false, 0, "unknown"},
		{"no gossip", nil, time.Hour, false, 0, "unknown"},
		{"another role of that name", []gossip.Member{self, {Name: "n1", Role: pki.RoleCoordinator, State: gossip.Dead, Since: start}}, time.Hour, false, 0, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			votes := votesOf(c.members, "c1", []string{"n1"}, start.Add(c.after))
			require.Len(t, votes, 1)
			require.Equal(t, c.dead, votes[0].GetDead())
			require.Equal(t, c.inc, votes[0].GetIncarnation())
			require.Equal(t, c.liveness, votes[0].GetLiveness())
		})
	}
}

func TestBallot_saysWhatIsMissing(t *testing.T) {
	node := &fsm.Node{ID: "n1", Incarnation: 5}
	dead := func(incarnation uint64) []*v1.Vote {
		return []*v1.Vote{{NodeId: "n1", Dead: true, Incarnation: incarnation, Liveness: "dead"}}
	}
	for _, c := range []struct {
		name   string
		answer []*v1.Vote
		err    error
		dead   int
		says   string
	}{
		{"dead", dead(5), nil, 2, ""},
		{"dead, and started again since the node registered", dead(6), nil, 2, ""},
		{"dead, as of an earlier start", dead(4), nil, 1, "c3 speaks of an earlier start of its agent"},
		{"dead, and never known", dead(0), nil, 2, ""},
		{"alive", []*v1.Vote{{NodeId: "n1", Incarnation: 5, Liveness: "alive"}}, nil, 1, "c3 sees it alive"},
		{"unknown", []*v1.Vote{{NodeId: "n1", Liveness: "unknown"}}, nil, 1, "c3 never heard of it"},
		{"silent", nil, errors.New("timeout"), 1, "c3 did not answer (timeout)"},
		{"about others", []*v1.Vote{{NodeId: "n2", Dead: true}}, nil, 1, "c3 said nothing of it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &ballot{voters: 3}
			b.count(node, "c1", dead(5), nil)
			b.count(node, "c2", []*v1.Vote{{NodeId: "n1", Incarnation: 5, Liveness: "suspect"}}, nil)
			b.count(node, "c3", c.answer, c.err)
			require.Equal(t, c.dead, b.dead())
			require.Equal(t, 2, b.need())
			if c.says != "" {
				require.Equal(t, "2 of 3 votes needed, 1: c2 sees it suspect; "+c.says, b.String())
			}
		})
	}
}
