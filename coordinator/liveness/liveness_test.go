package liveness

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

const unreachableAfter = 5 * time.Second

// clock is the time of a test.
type clock struct{ time.Time }

func newClock() *clock { return &clock{time.Unix(1_700_000_000, 0)} }

func (c *clock) sleep(d time.Duration) { c.Time = c.Add(d) }

func TestTerm_everybodyHasOneFreshPeriod(t *testing.T) {
	now := newClock()
	term := NewTerm(unreachableAfter, now.Time)
	opened := now.Time
	at, inSession := term.LastSeen("never heard of")
	require.False(t, inSession)
	require.Equal(t, opened, at)

	p := term.Enter("n1", now.Time, func() {})
	now.sleep(time.Second)
	heard := now.Time
	p.Hear(heard)
	now.sleep(time.Second)
	at, inSession = term.LastSeen("n1")
	require.True(t, inSession)
	require.True(t, heard.Equal(at))
	term.Leave(p)
	at, inSession = term.LastSeen("n1")
	require.False(t, inSession)
	require.True(t, heard.Equal(at), "kept beyond the session")

	now.sleep(time.Minute)
	term.Listening(now.Time)
	at, _ = term.LastSeen("n1")
	require.Equal(t, now.Time, at)
}

func TestTerm_theNewerSessionStays(t *testing.T) {
	now := newClock()
	term := NewTerm(unreachableAfter, now.Time)
	first := term.Enter("n1", now.Time, func() {})
	term.Enter("n1", now.Time, func() {})
	term.Leave(first)
	_, inSession := term.LastSeen("n1")
	require.True(t, inSession, "the end of the older one does not touch the newer")
}

func TestTerm_silenceCountsOnlyWhileTheLeaderCouldHear(t *testing.T) {
	now := newClock()
	term := NewTerm(unreachableAfter, now.Time)
	opened := now.Time
	listening := func() bool {
		listening, _ := term.Listening(now.Time)
		return listening
	}
	fresh := func() time.Time {
		at, _ := term.LastSeen("n1")
		return at
	}
	for range 10 {
		now.sleep(time.Second)
		term.Proven(now.Time)
		require.True(t, listening())
	}
	require.Equal(t, opened, fresh())
	now.sleep(3 * time.Second) // The process is suspended.
	term.Proven(now.Time)
	ok, stoodStill := term.Listening(now.Time)
	require.True(t, ok)
	require.True(t, stoodStill)
	require.Equal(t, now.Time, fresh(), "everybody has a fresh period")
	for range 2 {
		now.sleep(time.Second)
		require.True(t, listening())
	}
	for range 10 { // No voter confirms the term.
		now.sleep(time.Second)
		require.False(t, listening())
	}
	require.Equal(t, now.Time, fresh())
	term.Proven(now.Time)
	require.True(t, listening())
	require.Zero(t, term.Listened(now.Time))
}

func TestRound_confirmsOnlyWhatArrivedBeforeTheProofBegan(t *testing.T) {
	now := newClock()
	term := NewTerm(unreachableAfter, now.Time)
	woken := 0
	first := term.Enter("n1", now.Time, func() { woken++ })
	second := term.Enter("n2", now.Time, func() {})
	require.True(t, term.Round(nil).Empty())

	away := &work.Node{ID: "n9", BootID: "b"}
	first.Beat(1, now.Time)
	require.True(t, term.Relay(first, away, &v1.Renewal{NodeId: "n9", BootId: "b", Seq: 4}, now.Time))
	round := term.Round(nil)
	require.False(t, round.Empty())
	// A heartbeat that arrives during the proof may have been sent to a leader that is deposed by then.
	first.Beat(2, now.Time)
	require.True(t, term.Relay(first, away, &v1.Renewal{NodeId: "n9", BootId: "b", Seq: 5}, now.Time))
	second.Beat(7, now.Time)
	require.Empty(t, first.Relayed(), "nothing is acknowledged before the proof")
	direct, relayed := round.Confirm()
	require.Equal(t, []int{1, 1}, []int{direct, relayed})
	require.EqualValues(t, 1, first.Renewed())
	require.Zero(t, second.Renewed())
	acks := first.Relayed()
	require.Len(t, acks, 1)
	require.EqualValues(t, 4, acks[0].GetSeq())
	require.Equal(t, 1, woken, "the session is told")

	round = term.Round(round)
	direct, relayed = round.Confirm()
	require.Equal(t, []int{2, 1}, []int{direct, relayed}, "one proof for all that came meanwhile")
	require.EqualValues(t, 2, first.Renewed())
	require.EqualValues(t, 7, second.Renewed())
	require.Len(t, first.Relayed(), 1)
	require.True(t, term.Round(round).Empty())
}

// A task that was ordered and not launched is declared lost and replaced; a renewal through a peer must not let its node
// launch it after all (found by chaos/sim).
func TestRelay_renewsOnlyWhatTheStateKnows(t *testing.T) {
	for what, c := range map[string]struct {
		row    work.Node
		counts bool
	}{
		"of a node that is away":                {work.Node{ID: "n1", BootID: "b1", UnreachableSince: 5}, true},
		"of one that was declared lost":         {work.Node{ID: "n1", BootID: "b1", UnreachableSince: 5, LostSince: 9}, false},
		"after its machine was started again":   {work.Node{ID: "n1", BootID: "b0", UnreachableSince: 5}, false},
		"of the node through which it came":     {work.Node{ID: "n2", BootID: "b1"}, false},
		"of a node that may be lost any moment": {work.Node{ID: "barred", BootID: "b1"}, false},
	} {
		t.Run(what, func(t *testing.T) {
			now := newClock()
			term := NewTerm(unreachableAfter, now.Time)
			term.bar("barred")
			through := term.Enter("n2", now.Time, func() {})
			now.sleep(time.Second)
			counts := term.Relay(through, &c.row, &v1.Renewal{NodeId: c.row.ID, BootId: "b1", Seq: 7}, now.Time)
			require.Equal(t, c.counts, counts)
			_, relayed := term.LastRenewed(c.row.ID)
			require.Equal(t, c.counts, relayed)
			require.Equal(t, !c.counts, term.Round(nil).Empty())
		})
	}
}

func TestTerm_relayedRenewalsCountForTheLeaseAlone(t *testing.T) {
	now := newClock()
	term := NewTerm(unreachableAfter, now.Time)
	opened := now.Time
	now.sleep(time.Minute)
	term.bar("n1")
	require.False(t, term.relayedFor("n1", now.Time), "it may be declared lost any moment: what that takes is not renewed meanwhile")
	renewed, _ := term.LastRenewed("n1")
	require.Equal(t, opened, renewed)
	term.Unbar("n1")
	require.True(t, term.relayedFor("n1", now.Time))
	seen, inSession := term.LastSeen("n1")
	require.False(t, inSession)
	require.Equal(t, opened, seen, "the node itself was not heard of")
	renewed, through := term.LastRenewed("n1")
	require.True(t, through)
	require.Equal(t, now.Time, renewed)
	require.True(t, term.RenewsThroughPeers("n1", now.Time))
	now.sleep(time.Second)
	p := term.Enter("n1", now.Time, func() {})
	_, through = term.LastRenewed("n1")
	require.False(t, through, "it came back itself")
	term.Leave(p)
	renewed, through = NewTerm(unreachableAfter, now.Time).LastRenewed("n1")
	require.False(t, through)
	require.Equal(t, now.Time, renewed, "a new term begins with a fresh period")
}

func TestTerm_whichNodesAreSettled(t *testing.T) {
	now := newClock()
	term := NewTerm(unreachableAfter, now.Time)
	old := term.Enter("old", now.Time, func() {})
	now.sleep(SettleTime)
	old.Hear(now.Time)
	old.Beat(1, now.Time) // Only now is it certain that the agent knows of its session.
	now.sleep(SettleTime)
	require.Empty(t, term.AllSettled(now.Time), "longer than that, not as long")
	young := term.Enter("young", now.Time, func() {})
	young.Beat(1, now.Time)
	now.sleep(time.Millisecond)
	old.Hear(now.Time)
	require.Equal(t, []string{"old"}, term.AllSettled(now.Time))
	require.True(t, term.Settled("old", now.Time))
	require.False(t, term.Settled("young", now.Time))
	require.False(t, term.Settled("absent", now.Time))
	now.sleep(unreachableAfter + time.Millisecond)
	require.False(t, term.Settled("old", now.Time), "it was not heard of lately")
	term.Enter("old", now.Time, func() {})
	require.False(t, term.Settled("old", now.Time), "a new session starts from zero")
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
		{"left", []gossip.Member{self, agent("n1", gossip.Left)}, time.Second, true, 7, "left"},
		{"unknown to one that knows the others", []gossip.Member{self, other}, 16 * time.Second, true, 0, "unknown"},
		{"unknown to a newcomer", []gossip.Member{self, other}, 15 * time.Second, false, 0, "unknown"},
		{"unknown to one that is alone", []gossip.Member{self, gone}, time.Hour, false, 0, "unknown"},
		{"no gossip", nil, time.Hour, false, 0, "unknown"},
		{"another role of that name", []gossip.Member{self, {Name: "n1", Role: pki.RoleCoordinator, State: gossip.Dead, Since: start}}, time.Hour, false, 0, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			votes := Votes(c.members, "c1", []string{"n1"}, start.Add(c.after))
			require.Len(t, votes, 1)
			require.Equal(t, c.dead, votes[0].GetDead())
			require.Equal(t, c.inc, votes[0].GetIncarnation())
			require.Equal(t, c.liveness, votes[0].GetLiveness())
		})
	}
}

func TestBallot_saysWhatIsMissing(t *testing.T) {
	node := &work.Node{ID: "n1", Incarnation: 5}
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
			b := NewBallot(node, 3)
			b.Count("c1", dead(5), nil)
			b.Count("c2", []*v1.Vote{{NodeId: "n1", Incarnation: 5, Liveness: "suspect"}}, nil)
			b.Count("c3", c.answer, c.err)
			require.Equal(t, c.dead, b.dead())
			require.Equal(t, c.dead == 2, b.Won())
			if c.says != "" {
				require.Equal(t, "2 of 3 votes needed, 1: c2 sees it suspect; "+c.says, b.String())
			}
		})
	}
}

func TestBench_triesAgainLaterAndSaysTheSameOnce(t *testing.T) {
	now := newClock()
	b := NewBench(NewTerm(unreachableAfter, now.Time))
	require.True(t, b.Failed("n1", "no votes", now.Time))
	require.Equal(t, now.Add(retrySoon), b.obstacles["n1"].next)
	now.sleep(retrySoon)
	require.False(t, b.Failed("n1", "no votes", now.Time), "told a moment ago")
	require.True(t, b.Failed("n1", "no place", now.Time), "that is news")
	now.sleep(sayAgain)
	require.True(t, b.Failed("n1", "no place", now.Time), "not told for a while")
	for range manyTries {
		b.Failed("n1", "no place", now.Time)
	}
	require.Equal(t, now.Add(retryLater), b.obstacles["n1"].next)
}

// BenchmarkRound_1000Sessions measures one round in which every session waits, without the proof of leadership.
func BenchmarkRound_1000Sessions(b *testing.B) {
	now := time.Now()
	term := NewTerm(unreachableAfter, now)
	var all []*Presence
	for i := range 1000 {
		all = append(all, term.Enter("n"+time.Duration(i).String(), now, func() {}))
	}
	var round *Round
	b.ReportAllocs()
	for number := uint64(1); b.Loop(); number++ {
		for _, p := range all {
			p.Beat(number, now)
		}
		round = term.Round(round)
		round.Confirm()
	}
}
