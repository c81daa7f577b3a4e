package sim

import (
	"bytes"
	"fmt"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

// What coordinators are configured with.
const (
	heartbeat        = second
	unreachableAfter = 5 * second
)

// coordinator is a replica: a real state machine behind a modelled log, and what it does while it leads.
type coordinator struct {
	proc
	w    *world
	rate float64 // of the monotonic clock
	skew int64   // of the wall clock
	log  log

	machine *fsm.Machine
	done    int // entries applied
	barrier int // the entry with which its term begins
	saved   []byte
	savedAt int

	term   *term
	gossip []view // of each agent
	since  int64  // when its gossip began, own clock
}

// view is what one coordinator's gossip holds of an agent.
type view struct {
	known       bool
	heard       int64 // own clock
	incarnation uint64
	slander     int64 // own clock: until when it is held for dead, whatever it does
}

// term is what a leader knows; all of it is lost with the term. The real liveness.Term decides.
type term struct {
	*liveness.Term
	number   uint64
	bench    *liveness.Bench
	sessions []*session // by agent, nil: none

	renewing      bool
	renewedAt     int64
	proving       bool
	planned       uint64
	plannedAt     int64
	planning      bool
	judged, tried int64
	judging       int
	condemning    int
	ticked        int64
	acking        bool
}

func newCoordinator(w *world, id int) *coordinator {
	c := &coordinator{w: w, rate: w.rate(), skew: w.within(-50*ms, 50*ms)}
	c.id, c.name = id, fmt.Sprintf("c%d", id+1)
	c.gossip = make([]view, w.knobs.agents)
	voters := make([]string, w.knobs.coordinators)
	for i := range voters {
		voters[i] = fmt.Sprintf("c%d", i+1)
	}
	c.log = log{term: 1, voted: -1, entries: []entry{{term: 1, voters: voters}}}
	return c
}

// rate is that of a clock, wrong by up to half a percent.
func (w *world) rate() float64 { return 1 + (w.rng.Float64()-0.5)/100 }

func (c *coordinator) clock() int64 { return int64(float64(c.w.now)*c.rate) + second }

// time is the monotonic clock in the form that package liveness takes.
func (c *coordinator) time() time.Time { return time.Unix(0, c.clock()) }

func (c *coordinator) wall() int64 { return epoch + c.w.now + c.skew }

// later has this process do something, unless it dies before.
func (c *coordinator) later(d int64, do func()) {
	start := c.start
	c.w.after(d, func() { c.w.hand(&c.proc, start, do) })
}

// every has this process do something again and again.
func (c *coordinator) every(pace int64, do func()) {
	c.later(c.w.within(pace-pace/10, pace+pace/10), func() {
		do()
		c.every(pace, do)
	})
}

func (c *coordinator) boot() {
	c.start++
	c.up, c.awake = true, true
	l := &c.log
	c.log = log{term: l.term, voted: l.voted, entries: l.entries, commit: c.savedAt}
	c.machine, c.done, c.barrier, c.term = fsm.New(), c.savedAt, 0, nil
	if c.saved != nil {
		if err := c.machine.Restore(bytes.NewReader(c.saved)); err != nil {
			c.w.fail(State, "%s cannot restore its snapshot: %v", c.name, err)
			return
		}
		c.w.seen.Restores++
		c.w.truth.compare(c, c.savedAt)
	}
	clear(c.gossip)
	c.since = c.clock()
	c.rest()
	c.every(raftPulse, c.raftTick)
	c.every(100*ms, c.lead)
	c.every(second, c.hear)
}

func (c *coordinator) crash() {
	c.w.note("coordinator dies", c.name, "", uint64(c.done), c.log.term)
	var ends []*session
	if c.term != nil {
		ends = c.term.sessions
	}
	l := &c.log
	open, queued := l.waiting, l.queued
	c.up, c.term, l.leads = false, nil, false
	l.waiting, l.queued, l.proofs = nil, nil, nil
	for _, wt := range open {
		for _, p := range wt.batch {
			c.w.seen.Unknown++
			p.done(unknown, nil)
		}
	}
	for _, p := range queued {
		p.done(notSent, nil)
	}
	for _, s := range ends {
		if s != nil {
			s.served = false
			s.down.send(s.over)
		}
	}
}

// beginTerm comes when everything that earlier leaders committed is applied.
func (c *coordinator) beginTerm() {
	now := c.clock()
	c.w.note("leads", c.name, "", c.log.term, uint64(c.done))
	begins := c.time()
	if c.w.without(RuleFresh) {
		begins = begins.Add(-10 * time.Minute)
	}
	t := liveness.NewTerm(duration(unreachableAfter), begins)
	c.term = &term{
		Term: t, bench: liveness.NewBench(t), number: c.log.term, sessions: make([]*session, c.w.knobs.agents),
		judged: now, tried: now, ticked: now,
	}
}

func (c *coordinator) endTerm() {
	if c.term == nil {
		return
	}
	for _, s := range c.term.sessions {
		if s != nil {
			s.end()
		}
	}
	c.term = nil
}

// lead is one look at all that only the leader does.
func (c *coordinator) lead() {
	r := c.term
	if r == nil {
		return
	}
	listening := c.listening()
	if !r.proving {
		r.proving = true
		began := c.time()
		c.verify(func(ok bool) {
			r.proving = false
			if ok {
				r.Proven(began)
			}
		})
	}
	for _, s := range r.sessions {
		if s != nil && s.registered {
			s.tell()
		}
	}
	c.takeAcks(r)
	c.plan(r)
	now := c.clock()
	if listening && now-r.judged >= 500*ms {
		r.judged = now
		c.look(r)
	}
	if listening && now-r.tried >= 500*ms {
		r.tried = now
		c.condemn(r)
	}
	if now-r.ticked >= second {
		r.ticked = now
		c.tick(r)
	}
}

// listening says whether silence means anything now. Without the fresh period there is nothing to begin anew.
func (c *coordinator) listening() bool {
	if c.w.without(RuleAttention) || c.w.without(RuleFresh) {
		return true
	}
	listening, stoodStill := c.term.Listening(c.time())
	if stoodStill {
		c.w.note("stood still", c.name, "", c.term.number, 0)
	}
	return listening
}

// settled says whether a node may be given what may be alive elsewhere.
func (c *coordinator) settled(node string) bool {
	t, a := c.term, c.w.agent(node)
	if t == nil || a == nil || t.sessions[a.at] == nil {
		return false
	}
	if c.w.without(RuleSettle) {
		return t.sessions[a.at].registered
	}
	return t.Settled(node, c.time())
}

// renew confirms what had come when a proof began.
func (c *coordinator) renew() {
	t := c.term
	if t == nil || t.renewing {
		return
	}
	t.renewing = true
	c.later(max(0, t.renewedAt+int64(liveness.RenewPace)-c.clock()), func() {
		if c.term != t {
			return
		}
		t.renewedAt = c.clock()
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
		c.verify(finish)
	})
}

// hear is a round of gossip: an agent is heard of directly, or through one other.
func (c *coordinator) hear() {
	w := c.w
	for i, a := range w.agents {
		if !a.live() {
			continue
		}
		path := w.both(c.id, a.id)
		for j := 0; !path && j < len(w.agents)+len(w.coordinators); j++ {
			m := w.proc(j)
			path = m.live() && m.id != c.id && m.id != a.id && w.both(c.id, m.id) && w.both(m.id, a.id)
		}
		if path {
			v := &c.gossip[i]
			v.known, v.heard, v.incarnation = true, c.clock(), a.incarnation
		}
	}
}

// votes is what this coordinator's gossip says of an agent.
func (c *coordinator) votes(a *agent) []*v1.Vote {
	v, now := &c.gossip[a.at], c.clock()
	members := []gossip.Member{
		{Name: c.name, Role: pki.RoleCoordinator, State: gossip.Alive, Since: time.Unix(0, c.since)},
		{Name: "another", Role: pki.RoleCoordinator, State: gossip.Alive, Since: time.Unix(0, c.since)},
	}
	if v.known || now < v.slander {
		m := gossip.Member{Name: a.name, Role: pki.RoleAgent, State: gossip.Alive, Incarnation: v.incarnation, Since: time.Unix(0, v.heard)}
		if now < v.slander || now-v.heard > 4*second {
			m.State = gossip.Dead
		}
		members = append(members, m)
	}
	return liveness.Votes(members, c.name, []string{a.name}, time.Unix(0, now))
}

func (w *world) both(a, b int) bool { return !w.isCut(a, b) && !w.isCut(b, a) }

func (w *world) proc(id int) *proc {
	if id < len(w.coordinators) {
		return &w.coordinators[id].proc
	}
	return &w.agents[id-len(w.coordinators)].proc
}

func (w *world) agent(name string) *agent {
	for _, a := range w.agents {
		if a.name == name {
			return a
		}
	}
	return nil
}

// leader is the coordinator that leads in the newest term, as somebody who sees everything knows; nil: none.
func (w *world) leader() *coordinator {
	var leader *coordinator
	for _, c := range w.coordinators {
		if c.up && c.term != nil && (leader == nil || c.term.number > leader.term.number) {
			leader = c
		}
	}
	return leader
}
