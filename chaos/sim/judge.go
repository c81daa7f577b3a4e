package sim

import (
	"slices"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/scheduler"
)

// look writes down who fell silent, and who is back.
func (c *coordinator) look(r *reign) {
	if r.judging > 0 {
		return
	}
	now := c.clock()
	for n := range c.machine.View().Nodes() {
		a := c.w.agent(n.ID)
		seen, inSession := r.lastSeen(a.at)
		silent := now-seen > unreachableAfter
		switch {
		case silent && n.UnreachableSince == 0:
			r.judging++
			c.propose(fsm.SetNode{ID: n.ID, Action: fsm.NodeUnreachable, Reason: "silent"}, func(outcome, any) {
				r.judging--
				if s := r.sessions[a.at]; s != nil {
					s.end()
				}
			})
		case silent || !inSession || n.UnreachableSince == 0:
		case n.LostSince != 0:
			if s := r.sessions[a.at]; s.registered {
				s.end()
			}
		default:
			r.judging++
			c.propose(fsm.SetNode{ID: n.ID, Action: fsm.NodeReachable}, func(outcome, any) { r.judging-- })
		}
	}
}

// fit lists the nodes that may take over from another.
func (c *coordinator) fit(v *fsm.View, lost *fsm.Node) []string {
	var fit []string
	for n := range v.Nodes() {
		if n.ID != lost.ID && c.settled(n.ID) && n.RosterSince != 0 && n.RosterSince <= lost.RosterAcked {
			fit = append(fit, n.ID)
		}
	}
	return fit
}

// due says whether a verdict on a node is due, and with what.
func (c *coordinator) due(r *reign, v *fsm.View, n *fsm.Node) (fsm.LoseNode, bool) {
	at, _ := r.lastRenewed(c.w.agent(n.ID).at)
	silent := c.clock() - at
	command := fsm.LoseNode{Node: n.ID, Silent: silent, Eligible: c.fit(v, n)}
	held := false
	for l := range v.LeasesOn(n.ID) {
		j, ok := v.Job(l.Job)
		held = held || ok && j.Live() && j.Tasks[l.Rank].State != v1.TaskState_ENDED && j.RetryLeft(fsm.RetryNodeLost) &&
			silent >= max(j.LostAfter, fsm.MinLostAfter)
	}
	if held {
		return command, v.Losable(n.ID, silent, command.Eligible) > 0
	}
	return command, n.LostSince == 0 && silent >= fsm.DefaultLostAfter
}

// condemn asks the voters about the nodes that are due, and proposes the verdicts.
func (c *coordinator) condemn(r *reign) {
	if r.condemning > 0 {
		return
	}
	v := c.machine.View()
	for n := range v.Nodes() {
		if n.UnreachableSince == 0 {
			continue
		}
		if _, due := c.due(r, v, n); due {
			r.condemning++
			c.poll(r, n.ID)
		}
	}
}

// poll collects votes for up to a second, and then judges by those that came.
func (c *coordinator) poll(r *reign, node string) {
	a := c.w.agent(node)
	votes := []fsm.Vote{c.ballot(a)}
	for _, o := range c.w.coordinators {
		if o == c {
			continue
		}
		if c.w.without(RuleVotes) {
			votes = append(votes, fsm.Vote{Coordinator: o.name, Dead: true})
			continue
		}
		c.w.send(&c.proc, &o.proc, func() {
			vote := o.ballot(a)
			o.w.send(&o.proc, &c.proc, func() { votes = append(votes, vote) })
		})
	}
	if c.w.without(RuleVotes) {
		votes[0].Dead, votes[0].Incarnation = true, 0
	}
	c.later(c.w.within(50*ms, second), func() {
		r.condemning--
		dead := 0
		for _, vote := range votes {
			if vote.Dead {
				dead++
			}
		}
		if c.reign != r || 2*dead <= len(c.w.coordinators) {
			return
		}
		view := c.machine.View()
		n, ok := view.Node(node)
		if !ok || n.UnreachableSince == 0 || !r.listening(c) {
			return
		}
		command, due := c.due(r, view, n)
		if !due {
			return
		}
		command.Votes = slices.Clone(votes)
		r.condemning++
		c.propose(command, func(o outcome, result any) {
			r.condemning--
			if o != applied {
				return
			}
			if lost := result.(fsm.LoseNodeResult); lost.Refusal == nil {
				c.w.seen.Verdicts++
				c.w.seen.Lost += lost.Lost
				c.w.note("lost", c.name, node, uint64(lost.Lost), uint64(command.Silent))
			}
		})
	})
}

// takeAcks writes down which rosters the agents have.
func (c *coordinator) takeAcks(r *reign) {
	if r.acking {
		return
	}
	var command fsm.AckRoster
	v := c.machine.View()
	for i, a := range c.w.agents {
		version := r.acks[i]
		r.acks[i] = 0
		if c.w.without(RuleList) {
			version = v.RosterVersion()
		}
		if n, ok := v.Node(a.name); ok && n.RosterAcked < version {
			command.Acks = append(command.Acks, fsm.RosterAck{Node: a.name, Version: version})
		}
	}
	if len(command.Acks) == 0 {
		return
	}
	r.acking = true
	c.propose(command, func(o outcome, _ any) {
		r.acking = false
		if o == notSent {
			return
		}
		for _, ack := range command.Acks {
			at := c.w.agent(ack.Node).at
			r.acks[at] = max(r.acks[at], ack.Version)
		}
	})
}

// plan runs the real scheduler on what has changed, and every second while a replacement waits.
func (c *coordinator) plan(r *reign) {
	v := c.machine.View()
	if r.planning || v.Index() == r.planned && c.clock()-r.plannedAt < second {
		return
	}
	r.planned, r.plannedAt = v.Index(), c.clock()
	result := scheduler.Plan(v, time.Unix(0, v.Now()), scheduler.Options{PerCommand: 4, Settled: c.settled})
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

func (c *coordinator) tick(r *reign) {
	v := c.machine.View()
	due, dated := v.NextDue()
	away := false
	var tick fsm.Tick
	for n := range v.Nodes() {
		away = away || n.UnreachableSince != 0
		at, through := r.lastRenewed(c.w.agent(n.ID).at)
		if n.UnreachableSince != 0 && through && c.clock()-at <= unreachableAfter {
			tick.Renewing = append(tick.Renewing, n.ID)
		}
	}
	if (!dated || due > c.wall()) && !away {
		return
	}
	tick.Settled = r.listening(c) && c.clock()-r.opened >= settledAfter
	c.propose(tick, func(o outcome, result any) {
		if o == applied {
			c.w.seen.GaveUp += result.(fsm.TickResult).GaveUp
		}
	})
}
