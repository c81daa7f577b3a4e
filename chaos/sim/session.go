package sim

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	coordsession "github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// session is a stream between an agent and a leader, as both ends see it.
type session struct {
	w        *world
	c        *coordinator
	a        *agent
	t        *term
	up, down *pipe

	// The leader's end; times on its clock.
	served     bool
	registered bool
	presence   *liveness.Presence
	acked      uint64
	toldRoster uint64
	orders     *coordsession.OrderBook
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
func (c *coordinator) enter(a *agent, s *session, hello work.RegisterNode) {
	t := c.term
	if t == nil {
		c.w.send(&c.proc, &a.proc, s.over)
		return
	}
	if old := t.sessions[a.at]; old != nil {
		old.end()
	}
	s.t, s.served = t, true
	s.presence = t.Enter(a.name, c.time(), func() { s.sendAck() })
	s.orders = coordsession.NewOrderBook(a.name, noLauncher, nil)
	t.sessions[a.at] = s
	if coordsession.Registered(c.machine.View(), &hello.Node) {
		s.welcome()
		return
	}
	if c.w.without(RuleHello) {
		hello.Tasks = nil
	}
	c.propose(hello, func(o outcome, result any) {
		switch {
		case !s.served:
		case o != applied || result.(work.NodeResult).Refusal != nil:
			s.end()
		default:
			s.welcome()
		}
	})
}

func (s *session) welcome() {
	s.registered = true
	s.presence.Register()
	s.t.Unbar(s.a.name)
	term := s.t.number
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
	s.t.Leave(s.presence)
	if s.t.sessions[s.a.at] == s {
		s.t.sessions[s.a.at] = nil
	}
	s.down.send(s.over)
}

// over is the end of the stream as the agent learns of it.
func (s *session) over() { s.a.closed(s) }

func (s *session) heartbeat(seq, roster uint64) {
	if !s.served {
		return
	}
	now := s.c.time()
	s.presence.Hear(now)
	s.presence.Beat(seq, now)
	if roster != s.kept {
		s.kept = roster
		s.t.Keep(s.a.name, roster)
	}
	s.c.renew()
}

// relay takes in the renewal of another node.
func (s *session) relay(of *agent, boot string, seq, roster uint64) {
	if !s.served {
		return
	}
	now := s.c.time()
	s.presence.Hear(now)
	row, ok := s.c.machine.View().Node(of.name)
	if !ok {
		return
	}
	if s.w.without(RuleReturn) {
		returned := *row
		returned.LostSince, row = 0, &returned
		s.t.Unbar(of.name)
	}
	if s.t.Relay(s.presence, row, &v1.Renewal{NodeId: of.name, BootId: boot, Seq: seq, RosterVersion: roster}, now) {
		s.c.renew()
	}
}

// sendAck acknowledges what may be acknowledged.
func (s *session) sendAck() {
	if !s.served {
		return
	}
	beat, reported := s.presence.Renewed(), s.reported
	if beat != s.acked || reported != 0 {
		s.acked = beat
		s.down.send(func() { s.a.acknowledged(s, beat, reported) })
	}
	for _, ack := range s.presence.Relayed() {
		of := relayed{s.w.agent(ack.GetNodeId()), ack.GetSeq()}
		s.down.send(func() { s.a.relayAcked(of) })
	}
}

// reports commits what a node reports, one command at a time.
func (s *session) reports(batch []report) {
	if !s.served {
		return
	}
	s.presence.Hear(s.c.time())
	s.inbox = append(s.inbox, batch...)
	s.commit()
}

func (s *session) commit() {
	if s.committing || len(s.inbox) == 0 || !s.served {
		return
	}
	s.committing = true
	command, last := work.ReportTasks{Node: s.a.name}, uint64(0)
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
		s.sendAck()
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
	told := s.orders.Update(v)
	if told == nil {
		return
	}
	orders := make([]order, len(told.GetTasks()))
	for i, o := range told.GetTasks() {
		orders[i] = orderOf(v, o)
	}
	s.down.send(func() { s.a.ordered(s, orders) })
}

// noLauncher: what a task runs is made up.
func noLauncher(*fsm.View, *v1.SubmitJobRequest) *v1.Launcher { return nil }

// orderOf reads an order as an agent does. What its processes do is made up from the name of the job.
func orderOf(v *fsm.View, o *v1.TaskOrder) order {
	id, _ := ident.ParseJob(o.GetTask().GetJobId())
	out := order{
		key:  key{id, uint32(o.GetTask().GetAttempt()), uint16(o.GetTask().GetRank()), o.GetTask().GetToken()},
		stop: o.GetStop(), grace: int64(o.GetGracePeriodSeconds()) * second,
	}
	if s := o.GetSpec(); s != nil {
		out.spec = spec{lease: s.GetLeaseMs() * ms, replaceable: s.GetReplaceable(), replacement: s.GetReplacement()}
		for _, gpu := range s.GetGpus() {
			out.spec.gpus |= 1 << gpu
		}
		if j, ok := v.Job(id); ok {
			out.spec.grace, out.spec.name = j.Grace, j.Name
		}
	}
	return out
}
