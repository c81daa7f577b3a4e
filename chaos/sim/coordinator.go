package sim

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/mindcoordinator/mind/fsm"
)

// What the real coordinators go by.
const (
	heartbeat        = second
	unreachableAfter = 5 * second
	settleTime       = 8 * second
	renewPace        = 200 * ms
	settledAfter     = 60 * second
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
	barrier int // the entry with which its reign begins
	saved   []byte
	savedAt int

	reign  *reign
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

// reign is what a leader knows; all of it is lost with the reign. Times are on its own clock.
type reign struct {
	term     uint64
	opened   int64
	sessions []*session // by agent, nil: none
	seen     []int64
	relayed  []int64 // 0: never
	acks     []uint64

	awake, verified int64
	renewing        bool
	renewedAt       int64
	proving         bool
	planned         uint64
	plannedAt       int64
	planning        bool
	judged, tried   int64
	judging         int
	condemning      int
	ticked          int64
	acking          bool
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
func (c *coordinator) wall() int64  { return epoch + c.w.now + c.skew }

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
	c.machine, c.done, c.barrier, c.reign = fsm.New(), c.savedAt, 0, nil
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
	if c.reign != nil {
		ends = c.reign.sessions
	}
	l := &c.log
	open, queued := l.waiting, l.queued
	c.up, c.reign, l.leads = false, nil, false
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

// beginReign comes when everything that earlier leaders committed is applied.
func (c *coordinator) beginReign() {
	now, n := c.clock(), c.w.knobs.agents
	c.w.note("leads", c.name, "", c.log.term, uint64(c.done))
	c.reign = &reign{
		term: c.log.term, opened: now, sessions: make([]*session, n), seen: make([]int64, n), relayed: make([]int64, n),
		acks: make([]uint64, n), awake: now, verified: now, judged: now, tried: now, ticked: now,
	}
	if c.w.without(RuleFresh) {
		c.reign.opened = now - 10*minute
	}
}

func (c *coordinator) endReign() {
	if c.reign == nil {
		return
	}
	for _, s := range c.reign.sessions {
		if s != nil {
			s.end()
		}
	}
	c.reign = nil
}

// lead is one look at all that only the leader does.
func (c *coordinator) lead() {
	r := c.reign
	if r == nil {
		return
	}
	listening := r.listening(c)
	if !r.proving {
		r.proving = true
		began := c.clock()
		c.verify(func(ok bool) {
			r.proving = false
			if ok {
				r.verified = max(r.verified, began)
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

// listening says whether silence means anything now; when it does not, everybody gets a fresh period.
func (r *reign) listening(c *coordinator) bool {
	now := c.clock()
	gap := now - r.awake
	r.awake = now
	if c.w.without(RuleAttention) {
		return true
	}
	if gap > unreachableAfter/2 {
		c.w.note("stood still", c.name, "", r.term, uint64(gap))
		r.opened = now
	}
	if now-r.verified > unreachableAfter/2 {
		r.opened = now
		return false
	}
	return true
}

// lastSeen is when an agent was last heard of itself, within the reign.
func (r *reign) lastSeen(agent int) (at int64, inSession bool) {
	s := r.sessions[agent]
	if s != nil {
		return max(r.opened, s.heard), true
	}
	return max(r.opened, r.seen[agent]), false
}

func (r *reign) lastRenewed(agent int) (at int64, through bool) {
	at, _ = r.lastSeen(agent)
	if r.relayed[agent] > at {
		return r.relayed[agent], true
	}
	return at, false
}

// settled says whether a node may be given what may be alive elsewhere.
func (c *coordinator) settled(node string) bool {
	r := c.reign
	a := c.w.agent(node)
	if r == nil || a == nil || r.sessions[a.at] == nil {
		return false
	}
	s, now := r.sessions[a.at], c.clock()
	if c.w.without(RuleSettle) {
		return s.registered
	}
	return s.begun != 0 && now-s.begun > settleTime && now-s.heard <= unreachableAfter
}

// renew acknowledges what had come when a proof began.
func (c *coordinator) renew() {
	r := c.reign
	if r == nil || r.renewing {
		return
	}
	r.renewing = true
	c.later(max(0, r.renewedAt+renewPace-c.clock()), func() {
		if c.reign != r {
			return
		}
		r.renewedAt = c.clock()
		type unverified struct {
			s       *session
			beat    uint64
			relayed int
		}
		var round []unverified
		for _, s := range r.sessions {
			if s != nil && (s.beat != s.renewed || len(s.relays) > 0) {
				round = append(round, unverified{s, s.beat, len(s.relays)})
			}
		}
		finish := func(ok bool) {
			r.renewing = false
			for _, u := range round {
				if !ok || !u.s.served {
					continue
				}
				u.s.renewed = u.beat
				relays := slices.Clone(u.s.relays[:u.relayed])
				u.s.relays = slices.Delete(u.s.relays, 0, u.relayed)
				u.s.sendAck(relays)
			}
			if !ok && c.reign == r {
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

// ballot is what this coordinator says of an agent.
func (c *coordinator) ballot(a *agent) fsm.Vote {
	v, now := &c.gossip[a.at], c.clock()
	vote := fsm.Vote{Coordinator: c.name, Incarnation: v.incarnation}
	switch {
	case now < v.slander:
		vote.Dead = true
	case !v.known:
		vote.Dead = now-c.since > 15*second
	default:
		vote.Dead = now-v.heard > 4*second
	}
	return vote
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
		if c.up && c.reign != nil && (leader == nil || c.reign.term > leader.reign.term) {
			leader = c
		}
	}
	return leader
}
