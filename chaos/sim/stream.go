package sim

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/sim/engine"
	"github.com/mindcoordinator/mind/chaos/sim/raft"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// stream is the leader's end of a session. The real coordinator/session and coordinator/liveness decide which messages
// are sent.
type stream struct {
	c    *coordinator
	t    *term
	node string
	at   int
	call *call // the agent's end
	down *engine.Pipe

	open, registered bool
	presence         *liveness.Presence
	sender           *session.Sender
	view             uint64 // the version of the newest sent orders
	roster, kept     uint64
	// late has, without RuleOrders, the first orders, which wait for an acknowledgement.
	late  []*v1.SessionResponse
	acked bool

	reported   uint64
	inbox      []*v1.Report
	committing bool
}

// hello handles the first message of a session.
func (c *coordinator) hello(from *call, n *node, hello *v1.Hello) {
	down := c.Pipe(n.Proc)
	t := c.term
	if t == nil {
		leader := ""
		if id, known := c.log.Leader(); known {
			leader = c.w.coordinators[id].Name
		}
		down.Send(func() { from.ended(true, leader) })
		return
	}
	if old := t.sessions[n.at]; old != nil {
		old.end()
	}
	s := &stream{c: c, t: t, node: n.Name, at: n.at, call: from, down: down, open: true}
	s.presence = t.Enter(n.Name, c.time(), s.tell)
	s.sender = session.NewSender(s.presence, session.NewOrderBook(n.Name, noLauncher, nil))
	t.sessions[n.at], from.server = s, s
	command := session.Registration(hello)
	if session.Registered(c.machine.View(), &command.Node) {
		s.welcome()
		return
	}
	if c.w.without(RuleHello) {
		command.Tasks = nil
	}
	c.propose(command, func(o raft.Outcome, result any) {
		switch {
		case !s.open:
		case o != raft.Applied || result.(nodeverbs.NodeResult).Refusal != nil:
			s.end()
		default:
			s.welcome()
		}
	})
}

// noLauncher returns no launcher, because the programs of tasks are simulated.
func noLauncher(*fsm.View, *v1.SubmitJobRequest) *v1.Launcher { return nil }

func (s *stream) welcome() {
	s.registered = true
	s.presence.Register()
	s.t.Unbar(s.node)
	v := s.c.machine.View()
	s.view = v.Index()
	first := s.sender.Begin(&v1.Welcome{CoordinatorId: s.c.Name, Term: s.t.number, HeartbeatIntervalMs: int32(heartbeat.Milliseconds())}, v)
	if s.c.w.without(RuleOrders) {
		s.late, first = first[1:], first[:1]
	}
	s.send(first...)
}

func (s *stream) send(messages ...*v1.SessionResponse) {
	for _, m := range messages {
		s.down.Send(func() { s.call.receive(m) })
	}
}

// tell sends changes.
func (s *stream) tell() {
	if !s.open || !s.registered {
		return
	}
	acks := s.sender.Acks(s.reported)
	s.send(acks...)
	if s.acked = s.acked || len(acks) > 0; s.acked && len(acks) == 0 {
		s.send(s.late...)
		s.late = nil
	}
	if r := s.t.roster; r.GetVersion() != s.roster {
		s.roster = r.GetVersion()
		s.send(&v1.SessionResponse{Body: &v1.SessionResponse_Roster{Roster: r}})
	}
	if v := s.c.machine.View(); v.Index() != s.view && len(s.late) == 0 {
		s.view = v.Index()
		if orders := s.sender.Orders(v); orders != nil {
			s.send(orders)
		}
	}
}

// end ends the session, and the agent notices that.
func (s *stream) end() {
	if s.over() {
		s.down.Send(func() { s.call.ended(true, "") })
	}
}

// broke ends the session when its coordinator dies.
func (s *stream) broke() {
	if s.over() {
		s.down.Send(func() { s.call.ended(false, "") })
	}
}

func (s *stream) over() bool {
	if !s.open {
		return false
	}
	s.open = false
	s.t.Leave(s.presence)
	if s.t.sessions[s.at] == s {
		s.t.sessions[s.at] = nil
	}
	return true
}

// receive handles the agent's messages after its hello.
func (s *stream) receive(m *v1.SessionRequest) {
	if !s.open {
		return
	}
	now := s.c.time()
	s.presence.Hear(now)
	switch body := m.GetBody().(type) {
	case *v1.SessionRequest_Heartbeat:
		s.presence.Beat(body.Heartbeat.GetSeq(), now)
		if kept := body.Heartbeat.GetRosterVersion(); kept != s.kept {
			s.kept = kept
			s.t.Keep(s.node, kept)
		}
		s.c.renew()
	case *v1.SessionRequest_Relayed:
		s.relay(body.Relayed)
	case *v1.SessionRequest_Reports:
		s.inbox = append(s.inbox, body.Reports.GetReports()...)
		s.commit()
	}
}

// relay handles the relayed renewal of another node.
func (s *stream) relay(r *v1.Renewal) {
	row, ok := s.c.machine.View().Node(r.GetNodeId())
	if !ok {
		return
	}
	if s.c.w.without(RuleReturn) {
		returned := *row
		returned.LostSince, row = 0, &returned
		s.t.Unbar(row.ID)
	}
	if s.t.Relay(s.presence, row, r, s.c.time()) {
		s.c.renew()
	}
}

// commit proposes reports, one command at a time.
func (s *stream) commit() {
	if s.committing || len(s.inbox) == 0 || !s.open {
		return
	}
	s.committing = true
	command, last := session.Reports(s.node, s.inbox)
	s.inbox = nil
	s.c.propose(command, func(o raft.Outcome, _ any) {
		s.committing = false
		if o != raft.Applied {
			s.end()
			return
		}
		s.reported = max(s.reported, last)
		s.tell()
		s.commit()
	})
}
