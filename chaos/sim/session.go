package sim

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// session is a stream between an agent and a leader, as both ends see it.
type session struct {
	w        *world
	c        *coordinator
	a        *agent
	r        *reign
	up, down *pipe

	// The leader's end; times on its clock.
	served     bool
	registered bool
	heard      int64
	begun      int64 // first heartbeat; 0: none yet
	beat       uint64
	renewed    uint64
	acked      uint64
	relays     []relayed
	toldRoster uint64
	toldOrders []order
	ordered    bool
	kept       uint64
	reported   uint64
	inbox      []report
	committing bool

	// The agent's end; times on its clock.
	proven  bool
	patient int64 // the session is given up after
	beatAt  int64
	sent    int // reports of the outbox that were sent in it
}

type relayed struct {
	from *agent
	seq  uint64
}

// order is a task that a node is to have.
type order struct {
	key  key
	stop v1.StopReason_Value
	// grace goes with stop.
	grace int64
	spec  spec
}

// spec is what an agent must know to run a task.
type spec struct {
	lease       int64
	replaceable bool
	replacement bool
	grace       int64
	gpus        uint64
	name        string
}

// enter is a hello that has come to a coordinator; an answer that it does not lead is not worth a message.
func (c *coordinator) enter(a *agent, s *session, hello fsm.RegisterNode) {
	r := c.reign
	if r == nil {
		c.w.send(&c.proc, &a.proc, s.over)
		return
	}
	if old := r.sessions[a.at]; old != nil {
		old.end()
	}
	now := c.clock()
	s.r, s.served, s.heard = r, true, now
	r.sessions[a.at] = s
	v := c.machine.View()
	row, ok := v.Node(a.name)
	if ok && row.UnreachableSince == 0 && row.RosterSince != 0 && row.Incarnation == hello.Node.Incarnation && row.BootID == hello.Node.BootID &&
		row.RosterAcked <= hello.Node.RosterAcked && len(v.AwaitedOn(a.name)) == 0 {
		s.welcome()
		return
	}
	if c.w.without(RuleHello) {
		hello.Tasks = nil
	}
	c.propose(hello, func(o outcome, result any) {
		switch {
		case !s.served:
		case o != applied || result.(fsm.NodeResult).Refusal != nil:
			s.end()
		default:
			s.welcome()
		}
	})
}

func (s *session) welcome() {
	s.registered = true
	term := s.r.term
	s.down.send(func() { s.a.welcomed(s, term) })
	if !s.w.without(RuleOrders) {
		s.tell()
	}
}

// end is the leader's: it is over.
func (s *session) end() {
	if !s.served {
		return
	}
	s.served = false
	if s.r.sessions[s.a.at] == s {
		s.r.sessions[s.a.at] = nil
		s.r.seen[s.a.at] = s.heard
	}
	s.down.send(s.over)
}

// over is the end of the stream as the agent learns of it.
func (s *session) over() { s.a.closed(s) }

func (s *session) heartbeat(seq, roster uint64) {
	if !s.served {
		return
	}
	s.heard = s.c.clock()
	if s.begun == 0 {
		s.begun = s.heard
	}
	s.beat = seq
	if roster != s.kept {
		s.kept = roster
		s.r.acks[s.a.at] = max(s.r.acks[s.a.at], roster)
	}
	s.c.renew()
}

// relay takes in the renewal of another node.
func (s *session) relay(of *agent, boot string, seq, roster uint64) {
	if !s.served {
		return
	}
	s.heard = s.c.clock()
	row, ok := s.c.machine.View().Node(of.name)
	if !ok || row.BootID != boot || row.LostSince != 0 && !s.w.without(RuleReturn) {
		return
	}
	s.r.relayed[of.at] = s.heard
	s.r.acks[of.at] = max(s.r.acks[of.at], roster)
	s.relays = append(s.relays, relayed{of, seq})
	s.c.renew()
}

func (s *session) sendAck(relays []relayed) {
	beat, reported := s.renewed, s.reported
	if beat != s.acked || reported != 0 {
		s.acked = beat
		s.down.send(func() { s.a.acknowledged(s, beat, reported) })
	}
	for _, of := range relays {
		s.down.send(func() { s.a.relayAcked(of) })
	}
}

// reports commits what a node reports, one command at a time.
func (s *session) reports(batch []report) {
	if !s.served {
		return
	}
	s.heard = s.c.clock()
	s.inbox = append(s.inbox, batch...)
	s.commit()
}

func (s *session) commit() {
	if s.committing || len(s.inbox) == 0 || !s.served {
		return
	}
	s.committing = true
	command, last := fsm.ReportTasks{Node: s.a.name}, uint64(0)
	for _, r := range s.inbox {
		command.Reports = append(command.Reports, r.body)
		last = r.seq
	}
	s.inbox = nil
	s.c.propose(command, func(o outcome, _ any) {
		s.committing = false
		if o != applied {
			s.end()
			return
		}
		s.reported = max(s.reported, last)
		if s.served {
			s.sendAck(nil)
		}
		s.commit()
	})
}

// tell sends the roster and the orders when they have changed.
func (s *session) tell() {
	v := s.c.machine.View()
	if now := v.RosterVersion(); now != s.toldRoster {
		s.toldRoster = now
		var members []string
		for n := range v.Roster() {
			members = append(members, n.ID)
		}
		s.down.send(func() { s.a.rosterCame(s, now, members) })
	}
	var orders []order
	for l := range v.LeasesOn(s.a.name) {
		j, ok := v.Job(l.Job)
		if !ok || int(l.Rank) >= len(j.Tasks) || j.Tasks[l.Rank].State == v1.TaskState_ENDED {
			continue
		}
		o := order{
			key:  key{l.Job, l.Attempt, l.Rank, l.Token},
			stop: j.Stop, grace: j.StopGrace,
			spec: spec{lease: j.GiveUpAfter, grace: j.Grace, gpus: l.GPUs, replacement: j.Replacement(), name: j.Name},
		}
		if j.RetryLeft(fsm.RetryNodeLost) {
			o.spec.lease, o.spec.replaceable = max(j.LostAfter, fsm.MinLostAfter), true
		}
		orders = append(orders, o)
	}
	if s.ordered && slices.EqualFunc(orders, s.toldOrders, func(a, b order) bool { return a.key == b.key && a.stop == b.stop }) {
		return
	}
	s.ordered, s.toldOrders = true, orders
	s.down.send(func() { s.a.ordered(s, orders) })
}
