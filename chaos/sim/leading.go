package sim

import (
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/sim/raft"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/scheduler"
)

// The configuration of coordinators, and the pace of a leader's checks.
const (
	heartbeat        = time.Second
	unreachableAfter = 5 * time.Second

	leadPace = 100 * time.Millisecond
	lookPace = 500 * ms
)

// term is the state of a leader, which is lost at the end of its term. The real liveness.Term decides.
type term struct {
	*liveness.Term
	number   uint64
	bench    *liveness.Bench
	sessions []*stream // by node; nil: none
	roster   *v1.Roster

	renewing  bool
	renewedAt int64
	proving   bool
	planned   uint64
	plannedAt int64
	planning  bool
	lookedAt  int64
	looking   int // proposed changes of nodes in flight
	triedAt   int64
	losing    int // ballots and proposals in flight
	tickedAt  int64
	acking    bool
}

// Leads implements raft.Host.
func (c *coordinator) Leads() {
	now := c.Clock()
	c.w.seen.Elections++
	c.w.Note("leads", c.Name, "", c.log.Term(), uint64(c.log.Done()))
	begins := c.time()
	if c.w.without(RuleFresh) {
		begins = begins.Add(-10 * time.Minute)
	}
	t := liveness.NewTerm(unreachableAfter, begins)
	c.term = &term{
		Term: t, bench: liveness.NewBench(t), number: c.log.Term(), sessions: make([]*stream, len(c.w.nodes)),
		lookedAt: now, triedAt: now, tickedAt: now,
	}
}

// Deposed implements raft.Host.
func (c *coordinator) Deposed() {
	if t := c.term; t != nil {
		c.term = nil
		for _, s := range t.sessions {
			if s != nil {
				s.end()
			}
		}
	}
}

// lead does the periodic work of a leader.
func (c *coordinator) lead() {
	t := c.term
	if t == nil {
		return
	}
	listening := c.listening()
	if !t.proving {
		t.proving = true
		began := c.time()
		c.log.Verify(func(ok bool) {
			t.proving = false
			if ok {
				t.Proven(began)
			}
		})
	}
	v := c.machine.View()
	if t.roster == nil || t.roster.GetVersion() != v.RosterVersion() {
		t.roster = session.Roster(v)
	}
	for _, s := range t.sessions {
		if s != nil && s.registered {
			s.tell()
		}
	}
	c.takeAcks(t)
	c.plan(t)
	now := c.Clock()
	if listening && now-t.lookedAt >= lookPace {
		t.lookedAt = now
		c.look(t)
	}
	if listening && now-t.triedAt >= int64(liveness.BenchPace) {
		t.triedAt = now
		c.declareLost(t)
	}
	if now-t.tickedAt >= second {
		t.tickedAt = now
		c.tick(t)
	}
}

// listening reports whether silence of nodes counts. Without RuleFresh the period does not begin again with the term.
func (c *coordinator) listening() bool {
	if c.w.without(RuleAttention | RuleFresh) {
		return true
	}
	listening, stoodStill := c.term.Listening(c.time())
	if stoodStill {
		c.w.Note("stood still", c.Name, "", c.term.number, 0)
	}
	return listening
}

// settled reports whether a node may run replacements of tasks that may be alive elsewhere.
func (c *coordinator) settled(name string) bool {
	t, n := c.term, c.w.node(name)
	if t == nil || n == nil || t.sessions[n.at] == nil {
		return false
	}
	if c.w.without(RuleSettle) {
		return t.sessions[n.at].registered
	}
	return t.Settled(name, c.time())
}

// renew acknowledges the renewals that had arrived when a proof of leadership began.
func (c *coordinator) renew() {
	t := c.term
	if t == nil || t.renewing {
		return
	}
	t.renewing = true
	c.After(t.renewedAt+int64(liveness.RenewPace)-c.Clock(), func() {
		if c.term != t {
			return
		}
		t.renewedAt = c.Clock()
		round := t.Round(nil)
		finish := func(ok bool) {
			t.renewing = false
			if ok {
				round.Confirm()
			} else if c.term == t {
				c.renew()
			}
		}
		if c.w.without(RuleVerify) {
			finish(true)
			return
		}
		c.log.Verify(finish)
	})
}

// look records which nodes have become silent, and which are back.
func (c *coordinator) look(t *term) {
	if t.looking > 0 {
		return
	}
	seen := t.Look(c.machine.View(), c.time())
	for _, name := range seen.Again {
		t.end(name)
	}
	for _, change := range seen.Changes {
		t.looking++
		c.propose(change, func(raft.Outcome, any) {
			t.looking--
			if change.Action == nodeverbs.NodeUnreachable {
				t.end(change.ID)
			}
		})
	}
}

// end ends the session of a node, if it has one.
func (t *term) end(name string) {
	for _, s := range t.sessions {
		if s != nil && s.node == name {
			s.end()
		}
	}
}

// declareLost asks the voters about the nodes that are due, and proposes that they are lost.
func (c *coordinator) declareLost(t *term) {
	if t.losing > 0 {
		return
	}
	for _, suspect := range t.bench.Due(c.machine.View(), c.time(), func(string, string) {}) {
		t.losing++
		c.poll(t, suspect)
	}
}

// poll collects votes for up to a second, and then decides with those that arrived.
func (c *coordinator) poll(t *term, suspect *liveness.Suspect) {
	name := suspect.Node.ID
	n := c.w.node(name)
	ballot := liveness.NewBallot(suspect.Node, len(c.w.coordinators))
	count := func(voter string, votes []*v1.Vote) {
		if c.w.without(RuleVotes) {
			votes = []*v1.Vote{{NodeId: name, Dead: true}}
		}
		ballot.Count(voter, votes, nil)
	}
	count(c.Name, c.votes(n))
	for _, o := range c.w.coordinators {
		if o == c {
			continue
		}
		if c.w.without(RuleVotes) {
			count(o.Name, nil)
			continue
		}
		c.Send(o.Proc, func() {
			votes := o.votes(n)
			o.Send(c.Proc, func() { count(o.Name, votes) })
		})
	}
	c.After(c.w.Within(50*ms, second), func() {
		t.losing--
		if c.term != t {
			return
		}
		if !ballot.Won() {
			t.bench.Failed(name, ballot.String(), c.time())
			return
		}
		if command, ok := t.bench.Propose(suspect, ballot, c.machine.View(), c.listening(), c.time()); ok {
			c.lose(t, command)
		}
	})
}

func (c *coordinator) lose(t *term, command nodeverbs.LoseNode) {
	t.losing++
	c.propose(command, func(o raft.Outcome, result any) {
		t.losing--
		switch lost, _ := result.(nodeverbs.LoseNodeResult); {
		case o == raft.Unknown:
		case o == raft.NotSent || lost.Refusal != nil:
			t.Unbar(command.Node)
			t.bench.Failed(command.Node, "refused", c.time())
		default:
			c.w.seen.Results++
			c.w.seen.Lost += lost.Lost
			c.w.Note("lost", c.Name, command.Node, uint64(lost.Lost), uint64(command.Silent))
		}
	})
}

// takeAcks records which rosters the agents have acknowledged.
func (c *coordinator) takeAcks(t *term) {
	if t.acking {
		return
	}
	v := c.machine.View()
	command := nodeverbs.AckRoster{Acks: t.Kept(v)}
	if c.w.without(RuleList) {
		command.Acks = nil
		for _, n := range c.w.nodes {
			if row, ok := v.Node(n.Name); ok && row.RosterAcked < v.RosterVersion() {
				command.Acks = append(command.Acks, nodeverbs.RosterAck{Node: n.Name, Version: v.RosterVersion()})
			}
		}
	}
	if len(command.Acks) == 0 {
		return
	}
	t.acking = true
	c.propose(command, func(o raft.Outcome, _ any) {
		t.acking = false
		if o == raft.Applied {
			return
		}
		for _, ack := range command.Acks {
			t.Keep(ack.Node, ack.Version)
		}
	})
}

// plan runs the real scheduler after changes, and every second while a replacement waits.
func (c *coordinator) plan(t *term) {
	v := c.machine.View()
	if t.planning || v.Index() == t.planned && c.Clock()-t.plannedAt < second {
		return
	}
	t.planned, t.plannedAt = v.Index(), c.Clock()
	result := scheduler.Plan(v, scheduler.Options{PerCommand: 4, Settled: c.settled})
	if len(result.Commands) == 0 || result.ReasonsOnly && !c.w.Chance(0.1) {
		return
	}
	t.planning = true
	left := len(result.Commands)
	for _, command := range result.Commands {
		// The plan may be outdated when its entry is applied.
		c.After(c.w.Within(0, c.w.knobs.planLag), func() {
			c.propose(command, func(raft.Outcome, any) {
				if left--; left == 0 {
					t.planning = false
				}
			})
		})
	}
}

func (c *coordinator) tick(t *term) {
	v := c.machine.View()
	due, dated := v.NextDue()
	away := false
	for n := range v.Nodes() {
		away = away || n.UnreachableSince != 0
	}
	if (!dated || due > c.Wall().UnixNano()) && !away {
		return
	}
	c.propose(t.Tick(v, c.listening(), c.time()), func(o raft.Outcome, result any) {
		if o == raft.Applied {
			c.w.seen.GaveUp += result.(clusterverbs.TickResult).GaveUp
		}
	})
}
