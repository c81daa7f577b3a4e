package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/session"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/api/wait"
)

// Tasks are the tasks of the node.
type Tasks interface {
	// Reconcile brings the running tasks toward the orders, unless ctx has ended. It must return soon.
	Reconcile(ctx context.Context, orders *v1.Orders)
}

// Checkpoints carries out orders about checkpoints of the node.
type Checkpoints interface {
	// Take takes the orders of a session. It does not block.
	Take(orders []*v1.CheckpointOrder)
}

// GPUs are the GPUs of the node.
type GPUs interface {
	Current() []*v1.Gpu
	// Changed has a token when Current has changed.
	Changed() <-chan struct{}
	// SamplesSince returns the newest samples and their number, or none if the caller has these already.
	SamplesSince(told uint64) ([]*v1.GpuSample, uint64)
}

// Fitness reports whether the node can start tasks.
type Fitness interface {
	Why() string
	// Changed has a token when Why has changed.
	Changed() <-chan struct{}
}

// Config configures Sessions.
type Config struct {
	Node         string
	Coordinators []string
	Network      Network
	Credentials  credentials.TransportCredentials
	// Hello is the first message of a session.
	Hello func() *v1.Hello
	Tasks Tasks
	// Checkpoints may be nil.
	Checkpoints Checkpoints
	GPUs        GPUs
	// Fitness may be nil: the node can always start tasks.
	Fitness Fitness
	Outbox  *outbox.Outbox
	Leases  *Leases
	Rosters *Rosters
	Relays  *Relays
	Log     *slog.Logger
}

// Sessions keeps the agent in a session with the leader.
type Sessions struct {
	cfg    Config
	search *session.Search
	conns  conns

	again     chan struct{}
	live      atomic.Bool
	connected atomic.Int64
}

// NewSessions makes Sessions without a session: Run opens the first.
func NewSessions(cfg Config) *Sessions {
	return &Sessions{
		cfg: cfg, search: session.NewSearch(cfg.Coordinators, nil),
		conns: conns{network: cfg.Network, creds: cfg.Credentials}, again: make(chan struct{}, 1),
	}
}

// Restart asks for a new session, in which the leader sends all orders again. It does not block.
func (s *Sessions) Restart() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// Live reports whether there is a session with a coordinator.
func (s *Sessions) Live() bool { return s.live.Load() }

// Begun returns the number of sessions so far.
func (s *Sessions) Begun() int64 { return s.connected.Load() }

// Run holds sessions until the context ends.
func (s *Sessions) Run(ctx context.Context) {
	defer s.conns.keep("")
	for ctx.Err() == nil {
		s.round(ctx)
		if out, why, due := s.search.Complain(time.Now()); due {
			s.cfg.Log.Warn("no coordinator accepts a session with this agent", "for", out.Round(time.Second), "why", why)
		}
		if rest := s.search.End(time.Now()); rest > 0 {
			wait.For(ctx, wait.Spread(rest))
		}
	}
}

// round tries every coordinator once, the most likely leader first.
func (s *Sessions) round(ctx context.Context) {
	s.search.Begin()
	for ctx.Err() == nil {
		addr, ok := s.search.Next()
		if !ok {
			return
		}
		began := time.Now()
		outcome := s.hold(ctx, addr)
		outcome.Took = time.Since(began)
		if !outcome.Answered {
			s.conns.drop(addr)
		}
		if outcome.Held {
			s.cfg.Log.Info("session ended", "coordinator", addr, "why", outcome.Why)
		} else {
			s.cfg.Log.Debug("no session", "coordinator", addr, "why", outcome.Why, "leader", outcome.Leader)
			outcome.Why = fmt.Errorf("%s: %w", addr, outcome.Why)
		}
		s.search.Tried(addr, outcome)
	}
}

// hold opens a session with one coordinator and keeps it until it ends.
func (s *Sessions) hold(ctx context.Context, addr string) session.Outcome {
	conn, err := s.conns.to(addr, s.search.ConnectTime(addr))
	if err != nil {
		return session.Outcome{Why: fmt.Errorf("dial: %w", err)}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The watchdog ends the stream also if a send hangs in it.
	watchdog := time.AfterFunc(s.search.ConnectTime(addr)+s.search.AnswerTime(addr, session.WelcomeTimeout), func() { cancel(session.ErrSilent) })
	defer watchdog.Stop()
	rpc, err := v1.NewAgentServiceClient(conn).Session(ctx)
	if err != nil {
		return session.Outcome{Why: err}
	}
	held, err := s.speak(ctx, cancel, addr, rpc, watchdog)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	// The trailer of a stream is available only after it was read to its end.
	for {
		if _, err := rpc.Recv(); err != nil {
			break
		}
	}
	var answer metadata.MD = rpc.Trailer()
	leader := ""
	if hints := answer.Get(status.KeyLeader); len(hints) > 0 {
		_, leader, _ = strings.Cut(hints[0], "=")
	}
	return session.Outcome{Answered: answer.Len() > 0, Held: held, Leader: leader, Why: err}
}

// stream is an open session.
type stream struct {
	*Sessions
	rpc      v1.AgentService_SessionClient
	watchdog *time.Timer

	mu   sync.Mutex
	core *session.Session

	// gpus are the GPUs as last reported to the leader.
	gpus    []*v1.Gpu
	samples uint64
	// unfit is the reason why the node cannot start tasks, as last reported to the leader.
	unfit string
}

// do calls f with the session's state and the time, under the lock.
func (st *stream) do(f func(core *session.Session, now time.Time)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	f(st.core, time.Now())
}

// speak sends hello and then serves the stream until it breaks.
func (s *Sessions) speak(ctx context.Context, cancel context.CancelCauseFunc, addr string, rpc v1.AgentService_SessionClient, watchdog *time.Timer) (held bool, err error) {
	hello := s.cfg.Hello()
	if err := rpc.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Hello{Hello: hello}}); err != nil {
		// Recv returns the reason.
		_, err = rpc.Recv()
		return false, err
	}
	first, err := rpc.Recv()
	if err != nil {
		return false, err
	}
	welcome := first.GetWelcome()
	core, err := s.search.Welcomed(addr, welcome, time.Now())
	if err != nil {
		return false, err
	}
	watchdog.Reset(time.Until(core.SilentAt()))
	s.conns.keep(addr)
	s.cfg.Log.Info("in session", "coordinator", welcome.GetCoordinatorId(), "term", welcome.GetTerm())
	// The session counts as closed only when nothing of it is active: no order of it is accepted any more, and the
	// coordinator cannot hear from this node. It counts as open from the first acknowledgement on (see receive).
	defer s.cfg.Leases.sessionClosed()
	s.live.Store(true)
	s.connected.Add(1)
	defer s.live.Store(false)
	renewals, closeLink := s.cfg.Relays.open()

	st := &stream{Sessions: s, rpc: rpc, watchdog: watchdog, core: core, gpus: hello.GetGpus(), unfit: hello.GetUnfit()}
	received := make(chan error, 1)
	var receiver sync.WaitGroup
	receiver.Go(func() { received <- st.receive(ctx) })
	err = st.send(ctx, renewals, received)
	closeLink()
	cancel(err)
	receiver.Wait()
	return true, err
}

// receive handles the leader's messages until the stream ends.
func (st *stream) receive(ctx context.Context) error {
	for {
		response, err := st.rpc.Recv()
		if err != nil {
			return err
		}
		switch body := response.GetBody().(type) {
		case *v1.SessionResponse_Ack:
			st.acked(body.Ack)
		case *v1.SessionResponse_RelayedAck:
			st.cfg.Relays.acked(body.RelayedAck)
		case *v1.SessionResponse_Roster:
			st.do(func(core *session.Session, _ time.Time) { core.Roster(body.Roster) })
		case *v1.SessionResponse_Orders:
			// Only this goroutine passes on orders, so they stay in order, and orders of an ended session do not come after
			// those of the next.
			st.cfg.Tasks.Reconcile(ctx, body.Orders)
			if st.cfg.Checkpoints != nil {
				st.cfg.Checkpoints.Take(body.Orders.GetCheckpoints())
			}
		}
		var roster *v1.Roster
		st.do(func(core *session.Session, _ time.Time) { roster = core.TakeRoster() })
		if roster != nil {
			st.cfg.Rosters.take(roster)
		}
	}
}

func (st *stream) acked(ack *v1.Ack) {
	news, opened := st.cfg.Leases.Acked(ack.GetHeartbeatSeq()), false
	st.do(func(core *session.Session, now time.Time) {
		opened = core.Acked(news, now)
		if news {
			st.watchdog.Reset(core.SilentAt().Sub(now))
		}
	})
	if opened {
		st.cfg.Leases.sessionOpened()
	}
	st.cfg.Outbox.Ack(ack.GetReportSeq())
}

// send sends heartbeats and reports until the stream breaks.
func (st *stream) send(ctx context.Context, renewals <-chan *v1.Renewal, received <-chan error) error {
	st.cfg.Outbox.Rewind()
	beat, reports := time.NewTimer(0), time.NewTimer(0)
	defer beat.Stop()
	defer reports.Stop()
	resting := true // until the next reports may be sent
	var fitness <-chan struct{}
	if st.cfg.Fitness != nil {
		fitness = st.cfg.Fitness.Changed()
	}
	for {
		wake := st.cfg.Outbox.Wake()
		if resting {
			wake = nil
		}
		var err error
		// The failure of a GPU, or of the node, is reported before the end of its task.
		select {
		case <-st.cfg.GPUs.Changed():
			err = st.beat(beat)
		case <-fitness:
			err = st.beat(beat)
		default:
		}
		if err != nil {
			return reasonOf(received, err)
		}
		select {
		case <-st.cfg.GPUs.Changed():
			err = st.beat(beat)
		case <-fitness:
			err = st.beat(beat)
		case err := <-received:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-st.again:
			return errors.New("the agent asks for all orders again")
		case <-st.cfg.Rosters.kept:
			// Until the leader knows that the roster is on disk, running tasks cannot be replaced.
			err = st.beat(beat)
		case <-beat.C:
			err = st.beat(beat)
		case renewal := <-renewals:
			err = st.rpc.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Relayed{Relayed: renewal}})
		case <-reports.C:
			resting, err = st.report(reports)
		case <-wake:
			resting, err = st.report(reports)
		}
		if err != nil {
			return reasonOf(received, err)
		}
	}
}

// beat sends a heartbeat, with the GPUs if they have changed, and with samples if there are new ones.
func (st *stream) beat(next *time.Timer) error {
	seq, roster := st.cfg.Leases.Renewal()
	heartbeat := &v1.Heartbeat{Seq: seq, RosterVersion: roster}
	if now := st.cfg.GPUs.Current(); !slices.EqualFunc(st.gpus, now, func(x, y *v1.Gpu) bool { return proto.Equal(x, y) }) {
		st.gpus, heartbeat.Gpus = now, now
	}
	if st.cfg.Fitness != nil {
		if why := st.cfg.Fitness.Why(); why != st.unfit {
			st.unfit, heartbeat.Unfit = why, &why
		}
	}
	heartbeat.Samples, st.samples = st.cfg.GPUs.SamplesSince(st.samples)
	st.do(func(core *session.Session, now time.Time) {
		core.Beat(now)
		next.Reset(core.BeatAt().Sub(now))
	})
	return st.rpc.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Heartbeat{Heartbeat: heartbeat}})
}

// report sends one batch of reports. resting: no other batch may be sent until the timer fires.
func (st *stream) report(next *time.Timer) (resting bool, err error) {
	batch := st.cfg.Outbox.Take()
	if len(batch) == 0 {
		return false, nil
	}
	err = st.rpc.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Reports{Reports: &v1.ReportBatch{Reports: batch}}})
	st.do(func(core *session.Session, now time.Time) {
		core.Reported(now)
		next.Reset(core.ReportsAt().Sub(now))
	})
	return true, err
}

// reasonOf prefers the receiver's error: a send only returns EOF.
func reasonOf(received <-chan error, err error) error {
	select {
	case reason := <-received:
		return reason
	case <-time.After(time.Second):
		return err
	}
}
