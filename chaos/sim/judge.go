package sim

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler"
)

// look writes down who fell silent, and who is back.
func (c *coordinator) look(t *term) {
	if t.judging > 0 {
		return
	}
	seen := t.Look(c.machine.View(), c.time())
	for _, node := range seen.Again {
		t.end(c.w.agent(node))
	}
	for _, change := range seen.Changes {
		t.judging++
		c.propose(change, func(outcome, any) {
			t.judging--
			if change.Action == work.NodeUnreachable {
				t.end(c.w.agent(change.ID))
			}
		})
	}
}

// end ends the session of an agent, if it has one.
func (t *term) end(a *agent) {
	if s := t.sessions[a.at]; s != nil {
		s.end()
	}
}

// condemn asks the voters about the nodes that are due, and proposes that they are lost.
func (c *coordinator) condemn(t *term) {
	if t.condemning > 0 {
		return
	}
	for _, suspect := range t.bench.Due(c.machine.View(), c.time(), func(string, string) {}) {
		t.condemning++
		c.poll(t, suspect)
	}
}

// poll collects votes for up to a second, and then goes by those that came.
func (c *coordinator) poll(t *term, suspect *liveness.Suspect) {
	node := suspect.Node.ID
	a := c.w.agent(node)
	ballot := liveness.NewBallot(suspect.Node, len(c.w.coordinators))
	count := func(voter string, votes []*v1.Vote) {
		if c.w.without(RuleVotes) {
			votes = []*v1.Vote{{NodeId: node, Dead: true}}
		}
		ballot.Count(voter, votes, nil)
	}
	count(c.name, c.votes(a))
	for _, o := range c.w.coordinators {
		if o == c {
			continue
		}
		if c.w.without(RuleVotes) {
			count(o.name, nil)
			continue
		}
		c.w.send(&c.proc, &o.proc, func() {
			votes := o.votes(a)
			o.w.send(&o.proc, &c.proc, func() { count(o.name, votes) })
		})
	}
	c.later(c.w.within(50*ms, second), func() {
		t.condemning--
		if c.term != t {
			return
		}
		if !ballot.Won() {
			t.bench.Failed(node, ballot.String(), c.time())
			return
		}
		command, ok := t.bench.Propose(suspect, ballot, c.machine.View(), c.listening(), c.time())
		if !ok {
			return
		}
		t.condemning++
		c.propose(command, func(o outcome, result any) {
			t.condemning--
			switch lost, _ := result.(work.LoseNodeResult); {
			case o == unknown:
			case o != applied || lost.Refusal != nil:
				t.Unbar(node)
				t.bench.Failed(node, "refused", c.time())
			default:
				c.w.seen.Verdicts++
				c.w.seen.Lost += lost.Lost
				c.w.note("lost", c.name, node, uint64(lost.Lost), uint64(command.Silent))
			}
		})
	})
}

// takeAcks writes down which rosters the agents have.
func (c *coordinator) takeAcks(t *term) {
	if t.acking {
		return
	}
	v := c.machine.View()
	command := work.AckRoster{Acks: t.Kept(v)}
	if c.w.without(RuleList) {
		command.Acks = nil
		for _, a := range c.w.agents {
			if n, ok := v.Node(a.name); ok && n.RosterAcked < v.RosterVersion() {
				command.Acks = append(command.Acks, work.RosterAck{Node: a.name, Version: v.RosterVersion()})
			}
		}
	}
	if len(command.Acks) == 0 {
		return
	}
	t.acking = true
	c.propose(command, func(o outcome, _ any) {
		t.acking = false
		if o == applied {
			return
		}
		for _, ack := range command.Acks {
			t.Keep(ack.Node, ack.Version)
		}
	})
}

// plan runs the real scheduler on what has changed, and every second while a replacement waits.
func (c *coordinator) plan(r *term) {
	v := c.machine.View()
	if r.planning || v.Index() == r.planned && c.clock()-r.plannedAt < second {
		return
	}
	r.planned, r.plannedAt = v.Index(), c.clock()
	result := scheduler.Plan(v, scheduler.Options{PerCommand: 4, Settled: c.settled})
	if len(result.Commands) == 0 || result.ReasonsOnly && v.Index() == r.planned && !c.w.chance(0.1) {
		return
	}
	r.planning = true
	left := len(result.Commands)
	for _, command := range result.Commands {
		// Between the plan and its entry there is time in which it may become old.
		c.later(c.w.within(0, c.w.knobs.planLag), func() {
			c.propose(command, func(outcome, any) {
				if left--; left == 0 {
					r.planning = false
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
	if (!dated || due > c.wall()) && !away {
		return
	}
	c.propose(t.Tick(v, c.listening(), c.time()), func(o outcome, result any) {
		if o == applied {
			c.w.seen.GaveUp += result.(work.TickResult).GaveUp
		}
	})
}
