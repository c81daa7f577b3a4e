package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/raftnode"
)

const (
	// helloTime bounds how long a stream may be open without saying who it is.
	helloTime = 5 * time.Second
	// leaderWithin bounds how long an agent is kept waiting while no leader is known. Others may know one.
	leaderWithin = 300 * time.Millisecond
	// maxReports is how many reports travel in one command; maxPending how many may wait for their commit.
	maxReports = 512
	maxPending = 20_000
)

// Session serves one agent while this coordinator leads. Three goroutines share the work: one receives (so that a
// heartbeat is never late because a commit is), one commits reports, and one sends. This one waits for the end of the
// session and returns, which ends the stream, and with it a send to an agent that does not read.
func (s *server) Session(stream v1.AgentService_SessionServer) error {
	hello, err := s.receiveHello(stream)
	if err != nil {
		return err
	}
	if who := call.Of(stream.Context()).Peer; s.tls && who.ID != hello.GetNodeId() {
		return call.Errorf(codes.PermissionDenied, "the certificate is of %q, the session for %q", who.ID, hello.GetNodeId())
	}
	s.awaitLeader(stream.Context())
	sess, term, err := s.sessions.enter(stream.Context(), hello.GetNodeId())
	if err != nil {
		return sessionEnd(err)
	}
	defer s.sessions.leave(sess)
	if err := s.register(sess.ctx, hello); err != nil {
		return sessionEnd(causeOr(sess.ctx, err))
	}
	sess.registered.Store(true)
	s.sessions.absolve(sess.node)
	s.log.Info("agent in session", "node", sess.node, "term", term)
	in := &inbox{server: s, session: sess, fresh: make(chan struct{}, 1)}
	s.background.Go(func() { sess.cancel(in.receive(stream)) })
	s.background.Go(func() { sess.cancel(in.commit()) })
	s.background.Go(func() { sess.cancel(s.tell(sess, term, stream)) })
	<-sess.ctx.Done()
	err = context.Cause(sess.ctx)
	s.log.Info("agent's session over", "node", sess.node, "why", err)
	return sessionEnd(err)
}

// awaitLeader waits a little until a leader is known, this coordinator or another one: so the agents, which come back at
// once when a leader is gone, hear of the next one when there is one, and do not have to ask again and again.
func (s *server) awaitLeader(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaderWithin)
	defer cancel()
	select {
	case <-s.replica.LeaderKnown():
	case <-ctx.Done():
	}
}

// tell sends what the agent should know, at once when it changes, until the session is over.
func (s *server) tell(sess *session, term uint64, stream v1.AgentService_SessionServer) error {
	if err := stream.Send(&v1.SessionResponse{Body: &v1.SessionResponse_Welcome{Welcome: &v1.Welcome{
		CoordinatorId: s.config.ID, Term: term, HeartbeatIntervalMs: int32(s.config.Timers.AgentHeartbeat.Milliseconds()),
	}}}); err != nil {
		return err
	}
	orders := newOrderBook(sess.node)
	orders.unseal = s.unseal
	// The first orders go before the first acknowledgement: with that the agent may launch what it was ordered in an earlier
	// session, and some of it may be at work elsewhere by now.
	if first := orders.update(s.replica.View()); first != nil {
		if err := stream.Send(&v1.SessionResponse{Body: &v1.SessionResponse_Orders{Orders: first}}); err != nil {
			return err
		}
	}
	sess.poke()
	var acked v1.Ack
	var told *roster
	for {
		select {
		case <-sess.ctx.Done():
			return context.Cause(sess.ctx)
		case <-sess.wake:
		}
		// The acknowledgement of a report goes first, and the orders that follow are of a view that holds the report: an
		// agent that was told may forget the task.
		heartbeat, reported := sess.renewed.Load(), sess.reported.Load()
		if heartbeat != acked.GetHeartbeatSeq() || reported != acked.GetReportSeq() {
			acked.HeartbeatSeq, acked.ReportSeq = heartbeat, reported
			if err := stream.Send(&v1.SessionResponse{Body: &v1.SessionResponse_Ack{Ack: &v1.Ack{HeartbeatSeq: heartbeat, ReportSeq: reported}}}); err != nil {
				return err
			}
		}
		for _, ack := range sess.relays.take() {
			if err := stream.Send(&v1.SessionResponse{Body: &v1.SessionResponse_RelayedAck{RelayedAck: ack}}); err != nil {
				return err
			}
		}
		if now := s.rosters.current.Load(); now != told {
			if told = now; now.version != 0 {
				if err := now.send(stream); err != nil {
					return err
				}
			}
		}
		if sess.dirty.Swap(false) {
			if next := orders.update(s.replica.View()); next != nil {
				if err := stream.Send(&v1.SessionResponse{Body: &v1.SessionResponse_Orders{Orders: next}}); err != nil {
					return err
				}
			}
		}
	}
}

// causeOr prefers why the session was ended over what broke because of it.
func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		return cause
	}
	return err
}

func sessionEnd(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNotLeading):
		return call.Errorf(codes.FailedPrecondition, "%s", err.Error())
	case errors.Is(err, errReplaced), errors.Is(err, errSilent), errors.Is(err, errAgain):
		return call.Errorf(codes.Aborted, "%s", err.Error())
	case errors.Is(err, context.Canceled):
		return call.Errorf(codes.Canceled, "the agent went away")
	}
	return err
}

// receiveHello waits for the first message, not for ever: the context of a stream ends when its handler returns.
func (s *server) receiveHello(stream v1.AgentService_SessionServer) (*v1.Hello, error) {
	type first struct {
		req *v1.SessionRequest
		err error
	}
	got := make(chan first, 1)
	s.background.Go(func() {
		req, err := stream.Recv()
		got <- first{req, err}
	})
	timer := time.NewTimer(helloTime)
	defer timer.Stop()
	select {
	case f := <-got:
		if f.err != nil {
			return nil, f.err
		}
		if f.req.GetHello() == nil || f.req.GetHello().GetNodeId() == "" {
			return nil, call.Bad("hello", "the first message of a session must be a hello with a node_id")
		}
		return f.req.GetHello(), nil
	case <-timer.C:
		return nil, call.Errorf(codes.DeadlineExceeded, "no hello came")
	}
}

// register makes the state know the node as it is now; when it does already, nothing is written. A start of the agent is
// always written: the state learns from it which of the tasks that it is afraid of are gone.
func (s *server) register(ctx context.Context, hello *v1.Hello) error {
	n := nodeOf(hello)
	v := s.replica.View()
	if row, ok := v.Node(n.ID); ok && registered(row, &n) && len(v.AwaitedOn(n.ID)) == 0 {
		return nil
	}
	result, err := replica.Propose[fsm.NodeResult](ctx, s.replica, fsm.RegisterNode{Node: n, Tasks: taskRefs(hello.GetTasks())})
	if err != nil {
		return err
	}
	if result.Refusal != nil {
		return result.Refusal
	}
	return nil
}

// registered says whether a node need not be registered again: it is reachable and on the roster, its agent has not
// started anew, and lost nothing of the roster that it keeps.
func registered(row, n *fsm.Node) bool {
	return row.UnreachableSince == 0 && row.RosterSince != 0 && n.Incarnation != 0 && row.Incarnation == n.Incarnation &&
		row.RosterAcked <= n.RosterAcked && sameNode(row, n)
}

// inbox is what an agent says, on its way to the state.
type inbox struct {
	server  *server
	session *session
	kept    uint64 // version of the roster that the agent last said it keeps

	mu      sync.Mutex
	reports []*v1.Report
	gpus    []*v1.Gpu
	fresh   chan struct{}
}

// receive ends with the stream.
func (in *inbox) receive(stream v1.AgentService_SessionServer) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		in.session.hear()
		switch body := req.GetBody().(type) {
		case *v1.SessionRequest_Heartbeat:
			in.session.beat(body.Heartbeat.GetSeq())
			in.server.renewals.ask()
			if kept := body.Heartbeat.GetRosterVersion(); kept != in.kept {
				in.kept = kept
				in.server.rosters.kept(in.session.node, kept)
			}
			in.session.samples.put(body.Heartbeat.GetSamples())
			if len(body.Heartbeat.GetGpus()) > 0 {
				in.put(nil, body.Heartbeat.GetGpus())
			}
		case *v1.SessionRequest_Reports:
			if !in.put(body.Reports.GetReports(), nil) {
				return call.Errorf(codes.ResourceExhausted, "too many reports wait to be committed")
			}
		case *v1.SessionRequest_Relayed:
			in.server.relay(in.session, body.Relayed)
		default:
			return call.Bad("session", "only heartbeats, reports and renewals of others follow a hello")
		}
	}
}

func (in *inbox) put(reports []*v1.Report, gpus []*v1.Gpu) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.reports)+len(reports) > maxPending {
		return false
	}
	in.reports = append(in.reports, reports...)
	if gpus != nil {
		in.gpus = gpus
	}
	select {
	case in.fresh <- struct{}{}:
	default:
	}
	return true
}

func (in *inbox) take() (reports []*v1.Report, gpus []*v1.Gpu) {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := min(len(in.reports), maxReports)
	reports, in.reports = in.reports[:n:n], in.reports[n:]
	gpus, in.gpus = in.gpus, nil
	return reports, gpus
}

// commit brings reports into the state, what has piled up at a time, until the session is over.
func (in *inbox) commit() error {
	ctx := in.session.ctx
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-in.fresh:
		}
		for {
			reports, gpus := in.take()
			if len(reports) == 0 && gpus == nil {
				break
			}
			if err := in.propose(ctx, reports, gpus); err != nil {
				return err
			}
		}
	}
}

func (in *inbox) propose(ctx context.Context, reports []*v1.Report, gpus []*v1.Gpu) error {
	if gpus != nil {
		// Refused only when the node was forgotten meanwhile, and then the next session registers it anew.
		command := fsm.SetNode{ID: in.session.node, Action: fsm.NodeHealth, GPUs: gpusOf(gpus)}
		if _, err := patiently[fsm.NodeResult](ctx, in.server, command); err != nil {
			return err
		}
	}
	if len(reports) == 0 {
		return nil
	}
	command := fsm.ReportTasks{Node: in.session.node}
	last := uint64(0)
	for _, r := range reports {
		last = max(last, r.GetSeq())
		// What names no job can change nothing; it is acknowledged, so that it is not sent for ever.
		if report, ok := reportOf(r); ok {
			command.Reports = append(command.Reports, report)
		}
	}
	if len(command.Reports) > 0 {
		if _, err := patiently[fsm.ReportResult](ctx, in.server, command); err != nil {
			return err
		}
	}
	in.session.reported.Store(max(last, in.session.reported.Load()))
	in.session.poke()
	return nil
}

// patiently proposes again while too many writes wait: an agent has nowhere else to go with what it has to report.
func patiently[R any](ctx context.Context, s *server, command fsm.Command) (R, error) {
	for {
		result, err := replica.Propose[R](ctx, s.replica, command)
		if !errors.Is(err, raftnode.ErrBacklogFull) {
			return result, err
		}
		wait.For(ctx, replanPause)
	}
}
