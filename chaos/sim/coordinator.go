package sim

import (
	"bytes"
	"fmt"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/sim/engine"
	"github.com/mindcoordinator/mind/chaos/sim/raft"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

// coordinator is a replica: a real state machine behind a modelled log, with the work of a leader. It implements
// raft.Host.
type coordinator struct {
	*engine.Proc
	w    *world
	rate float64 // of the monotonic clock
	skew int64   // of the wall clock
	log  *raft.Log

	machine *fsm.Machine
	saved   []byte // the newest snapshot
	savedAt int

	term   *term
	gossip []sight // for each agent
	since  int64   // when its gossip began, by its own clock
}

// sight is the state of an agent in one coordinator's gossip.
type sight struct {
	known       bool
	heard       int64 // when it was last heard, by the own clock
	incarnation uint64
	slander     int64 // until when it counts as dead, whatever it does, by the own clock
}

// suspicion is the time without a message after which gossip considers an agent dead.
const suspicion = 4 * second

func (w *world) addCoordinators(n int) {
	var voters []string
	for i := range n {
		voters = append(voters, fmt.Sprintf("c%d", i+1))
	}
	var logs []*raft.Log
	for i, name := range voters {
		c := &coordinator{Proc: w.Add(name), w: w, rate: w.rate(), skew: w.Within(-50*ms, 50*ms), gossip: make([]sight, w.knobs.nodes)}
		c.log = raft.New(raft.Config{
			Engine: w.Engine, Proc: c.Proc, Host: c, ID: i, LeaderLease: w.knobs.leaderLease, Lag: w.knobs.lag,
		}, voters)
		w.coordinators, logs = append(w.coordinators, c), append(logs, c.log)
	}
	raft.Connect(logs)
}

// Clock implements raft.Host.
func (c *coordinator) Clock() int64 { return int64(float64(c.w.Now())*c.rate) + second }

// Wall implements raft.Host.
func (c *coordinator) Wall() time.Time { return time.Unix(0, c.w.Wall()+c.skew) }

// time returns the time of the monotonic clock in the form that package liveness takes.
func (c *coordinator) time() time.Time { return time.Unix(0, c.Clock()) }

func (c *coordinator) boot() {
	c.Start()
	c.machine, c.term = fsm.New(), nil
	if c.saved != nil {
		if err := c.machine.Restore(bytes.NewReader(c.saved)); err != nil {
			c.w.fail(State, "%s cannot restore its snapshot: %v", c.Name, err)
			return
		}
		c.w.seen.Restores++
		c.w.truth.compare(c, c.savedAt)
	}
	clear(c.gossip)
	c.since = c.Clock()
	c.log.Boot(c.savedAt)
	c.Every(leadPace, c.lead)
	c.Every(time.Second, c.hear)
}

func (c *coordinator) crash() {
	c.w.Note("coordinator dies", c.Name, "", uint64(c.log.Done()), c.log.Term())
	t := c.term
	c.Die()
	c.term = nil
	c.log.Crash()
	if t != nil {
		for _, s := range t.sessions {
			if s != nil {
				s.broke()
			}
		}
	}
}

// snapshot saves the state for the next start.
func (c *coordinator) snapshot() {
	var b bytes.Buffer
	if _, err := c.machine.Snapshot().WriteTo(&b); err != nil {
		panic(err)
	}
	c.saved, c.savedAt = b.Bytes(), c.log.Done()
}

// Apply implements raft.Host.
func (c *coordinator) Apply(index int, e *raft.Entry) (results []any) {
	switch {
	case e.Voters != nil:
		c.machine.StoreConfiguration(uint64(index), e.Voters)
	case e.Data != nil:
		results = c.machine.Apply(uint64(index), e.Data)
	}
	c.w.truth.applied(c, index, e)
	return results
}

// propose proposes a command. done is called when it is applied here, or its outcome is unknown for good.
func (c *coordinator) propose(command kernel.Command, done func(raft.Outcome, any)) {
	c.log.Propose(command, func(o raft.Outcome, result any) {
		if o == raft.Unknown {
			c.w.seen.Unknown++
		}
		done(o, result)
	})
}

// hear makes a round of gossip.
func (c *coordinator) hear() {
	for i, n := range c.w.nodes {
		if n.Live() && c.w.Reach(c.Proc, n.Proc) {
			s := &c.gossip[i]
			s.known, s.heard, s.incarnation = true, c.Clock(), n.life.incarnation
		}
	}
}

// votes returns this coordinator's vote on an agent, according to its gossip.
func (c *coordinator) votes(n *node) []*v1.Vote {
	s, now := &c.gossip[n.at], c.Clock()
	members := []gossip.Member{
		{Name: c.Name, Role: pki.RoleCoordinator, State: gossip.Alive, Since: time.Unix(0, c.since)},
		{Name: "another", Role: pki.RoleCoordinator, State: gossip.Alive, Since: time.Unix(0, c.since)},
	}
	if s.known || now < s.slander {
		m := gossip.Member{Name: n.Name, Role: pki.RoleAgent, State: gossip.Alive, Incarnation: s.incarnation, Since: time.Unix(0, s.heard)}
		if now < s.slander || now-s.heard > suspicion {
			m.State = gossip.Dead
		}
		members = append(members, m)
	}
	return liveness.Votes(members, c.Name, []string{n.Name}, time.Unix(0, now))
}
