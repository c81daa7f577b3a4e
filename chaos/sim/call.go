package sim

import (
	"errors"
	"time"

	"github.com/mindcoordinator/mind/agent/session"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/sim/engine"
)

// call is one try of an agent to get a session, and then that session: the agent's end of a stream.
type call struct {
	l      *life
	n      *node
	addr   string
	began  int64
	up     *engine.Pipe
	server *stream // the coordinator's end
	over   bool
	core   *session.Session // nil: not welcomed yet
	// passing are the relayed renewals of other agents that wait for their acknowledgement.
	passing map[relayed]func()
}

type relayed struct {
	node string
	seq  uint64
}

var (
	errRefused = errors.New("connection refused")
	errClosed  = errors.New("the coordinator ended the session")
	errAgain   = errors.New("the agent wants all orders again")
)

// find begins a round: every coordinator is asked once.
func (l *life) find() {
	l.search.Begin()
	l.next()
}

// next asks the next coordinator of the round.
func (l *life) next() {
	addr, ok := l.search.Next()
	if ok {
		l.try(addr)
		return
	}
	rest := int64(l.search.End(l.n.Time()))
	l.n.After(l.n.w.Within(rest/2, rest), l.find)
}

// try asks a coordinator for a session.
func (l *life) try(addr string) {
	n, to := l.n, l.n.w.coordinator(addr)
	c := &call{l: l, n: n, addr: addr, began: n.Clock(), passing: map[relayed]func(){}}
	l.call = c
	connect := int64(l.search.ConnectTime(addr))
	switch {
	case !n.w.Linked(n.Proc, to.Proc):
		n.After(connect, func() { c.finish(session.Outcome{Why: session.ErrSilent}) })
	case !to.Up():
		n.After(n.w.Within(ms, 20*ms), func() { c.finish(session.Outcome{Why: errRefused}) })
	default:
		c.up = n.Pipe(to.Proc)
		hello := l.hello()
		c.up.Send(func() { to.hello(c, n, hello) })
		n.After(connect+int64(l.search.AnswerTime(addr, session.WelcomeTimeout)), func() {
			if c.core == nil {
				c.finish(session.Outcome{Why: session.ErrSilent})
			}
		})
	}
}

// finish ends a try, or the session.
func (c *call) finish(o session.Outcome) {
	if c.over {
		return
	}
	c.hangUp()
	if o.Held = c.core != nil; o.Held {
		c.n.w.Note("out of session: "+o.Why.Error(), c.n.Name, c.addr, 0, 0)
		c.l.book.SessionClosed(c.n.Clock())
	}
	o.Took = time.Duration(c.n.Clock() - c.began)
	c.l.call = nil
	c.l.search.Tried(c.addr, o)
	c.l.next()
}

// hangUp ends the stream, and the coordinator notices that.
func (c *call) hangUp() {
	c.over = true
	if c.up != nil {
		c.up.Send(func() {
			if c.server != nil {
				c.server.end()
			}
		})
	}
}

// ended is called when the coordinator ends the stream. answered: the coordinator answered, and may have named the
// leader.
func (c *call) ended(answered bool, leader string) {
	c.finish(session.Outcome{Answered: answered, Leader: leader, Why: errClosed})
}

// again ends the session to begin another one.
func (c *call) again() { c.finish(session.Outcome{Answered: true, Why: errAgain}) }

// send sends a message in the session.
func (c *call) send(m *v1.SessionRequest) {
	c.up.Send(func() {
		if c.server != nil {
			c.server.receive(m)
		}
	})
}

// receive handles a message of the leader.
func (c *call) receive(m *v1.SessionResponse) {
	if c.over {
		return
	}
	switch body := m.GetBody().(type) {
	case *v1.SessionResponse_Welcome:
		c.welcomed(body.Welcome)
	case *v1.SessionResponse_Ack:
		c.acked(body.Ack)
	case *v1.SessionResponse_RelayedAck:
		name := relayed{body.RelayedAck.GetNodeId(), body.RelayedAck.GetSeq()}
		if done := c.passing[name]; done != nil {
			delete(c.passing, name)
			done()
		}
	case *v1.SessionResponse_Roster:
		c.core.Roster(body.Roster)
	case *v1.SessionResponse_Orders:
		c.l.table.Reconcile(body.Orders, c.n.wall())
	}
	if c.core != nil && !c.over {
		if r := c.core.TakeRoster(); r != nil {
			c.l.keep(r)
		}
	}
}

func (c *call) welcomed(w *v1.Welcome) {
	core, err := c.l.search.Welcomed(c.addr, w, c.n.Time())
	if err != nil {
		c.finish(session.Outcome{Answered: true, Why: err})
		return
	}
	c.core = core
	c.n.w.Note("in session", c.n.Name, c.addr, w.GetTerm(), 0)
	c.l.outbox.Rewind()
	c.beat()
	c.nextBeat()
	c.watch()
	c.l.flush()
}

func (c *call) acked(ack *v1.Ack) {
	news := c.l.acked(ack.GetHeartbeatSeq())
	if c.core.Acked(news, c.n.Time()) {
		c.l.book.SessionOpened(c.n.Clock())
		c.l.launchable()
	}
	for _, r := range c.l.outbox.Ack(ack.GetReportSeq()) {
		if r.Acked != nil {
			r.Acked()
		}
	}
}

// at schedules an action of the session at an instant of the machine's clock.
func (c *call) at(when time.Time, do func()) {
	c.n.After(c.n.Until(when.UnixNano()), func() {
		if !c.over {
			do()
		}
	})
}

// watch gives up a leader that does not acknowledge.
func (c *call) watch() {
	c.at(c.core.SilentAt(), func() {
		if c.n.Time().Before(c.core.SilentAt()) {
			c.watch()
			return
		}
		c.finish(session.Outcome{Why: session.ErrSilent})
	})
}

func (c *call) nextBeat() {
	c.at(c.core.BeatAt(), func() {
		c.beat()
		c.nextBeat()
	})
}

// beat sends a heartbeat.
func (c *call) beat() {
	if c.core == nil {
		return
	}
	seq, roster := c.l.renewal()
	c.core.Beat(c.n.Time())
	c.send(&v1.SessionRequest{Body: &v1.SessionRequest_Heartbeat{Heartbeat: &v1.Heartbeat{Seq: seq, RosterVersion: roster}}})
}

// flush sends reports, as soon as that is allowed.
func (l *life) flush() {
	c := l.call
	if c == nil || c.core == nil || l.flushing {
		return
	}
	if now := l.n.Time(); now.Before(c.core.ReportsAt()) {
		l.flushing = true
		l.n.After(l.n.Until(c.core.ReportsAt().UnixNano()), func() {
			l.flushing = false
			l.flush()
		})
		return
	}
	if batch := l.outbox.Take(); len(batch) > 0 {
		c.core.Reported(l.n.Time())
		c.send(&v1.SessionRequest{Body: &v1.SessionRequest_Reports{Reports: &v1.ReportBatch{Reports: batch}}})
		l.flush()
	}
}

// pass relays the renewal of another agent.
func (l *life) pass(r *v1.Renewal, done func()) {
	name := relayed{r.GetNodeId(), r.GetSeq()}
	c := l.call
	if c == nil || c.core == nil || c.passing[name] != nil {
		return
	}
	c.passing[name] = done
	c.send(&v1.SessionRequest{Body: &v1.SessionRequest_Relayed{Relayed: r}})
}
