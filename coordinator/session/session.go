package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// State is the replicated state, with a Proposer to change it.
type State interface {
	View() *fsm.View
	replica.Proposer
}

// Config configures sessions.
type Config struct {
	ID string
	// TLS: the certificate of a session must belong to its node.
	TLS bool
	// Heartbeat is the interval at which agents renew.
	Heartbeat time.Duration
	// Launcher and Unseal complete the specification of a task; see NewOrderBook.
	Launcher Launcher
	Unseal   func(*work.Job, *v1.TaskSpec)
	// NotifyURL gets notices of the decisions at gates; empty: nobody does.
	NotifyURL string
	// Background counts the goroutines of sessions.
	Background *sync.WaitGroup
	Log        *slog.Logger
}

// Service serves the sessions of agents.
type Service struct {
	config  Config
	log     *slog.Logger
	replica *replica.Replica
	// current returns the table of the term in which this coordinator leads; nil: it does not lead.
	current func() *Table
}

// New makes the service.
func New(config Config, r *replica.Replica, current func() *Table) *Service {
	return &Service{config: config, log: config.Log, replica: r, current: current}
}

// InSession reports whether a node is in session with this coordinator, and whether this coordinator leads.
func (s *Service) InSession(node string) (inSession, leading bool) {
	table := s.current()
	if table == nil {
		return false, false
	}
	_, inSession = table.Liveness.LastSeen(node)
	return inSession, true
}

// RenewsThroughPeers reports whether a node that is not in session renews through others, as far as this coordinator knows:
// false if it does not lead.
func (s *Service) RenewsThroughPeers(node string) bool {
	table := s.current()
	return table != nil && table.Liveness.RenewsThroughPeers(node, time.Now())
}

const (
	// backlogPause is the pause of reports while too many writes wait.
	backlogPause = 20 * time.Millisecond
	// helloTime limits how long a stream may be open without a hello.
	helloTime = 5 * time.Second
	// leaderWithin limits how long an agent waits while no leader is known. Other coordinators may know one.
	leaderWithin = 300 * time.Millisecond
	// maxReports is the number of reports in one command, maxPending the number that may wait for their commit.
	// maxReportBytes is the size of the reports in one command: a log entry has a bound, and a job decides how large its reports are.
	maxReports     = 512
	maxReportBytes = 1 << 20
	maxPending     = 20_000
)

// Session serves one agent while this coordinator leads. Three goroutines share the work: one receives (so that a
// commit does not delay a heartbeat), one commits reports, and one sends. This goroutine waits for the end of the
// session and returns, which ends the stream, and a send to an agent that does not read.
func (s *Service) Session(stream v1.AgentService_SessionServer) error {
	hello, err := s.receiveHello(stream)
	if err != nil {
		return err
	}
	if who := call.Of(stream.Context()).Peer; s.config.TLS && who.ID != hello.GetNodeId() {
		return call.Errorf(codes.PermissionDenied, "the certificate belongs to %q, but the session to %q", who.ID, hello.GetNodeId())
	}
	s.awaitLeader(stream.Context())
	table := s.current()
	if table == nil {
		return sessionEnd(errNotLeading)
	}
	sess, err := table.enter(stream.Context(), hello.GetNodeId())
	if err != nil {
		return sessionEnd(err)
	}
	defer table.leave(sess)
	if err := s.register(sess.ctx, hello); err != nil {
		return sessionEnd(causeOr(sess.ctx, err))
	}
	sess.Register()
	table.Liveness.Unbar(sess.Node())
	s.log.Info("session started", "node", sess.Node(), "term", table.term)
	in := &inbox{service: s, table: table, session: sess, fresh: make(chan struct{}, 1)}
	s.config.Background.Go(func() { sess.cancel(in.receive(stream)) })
	s.config.Background.Go(func() { sess.cancel(in.commit()) })
	s.config.Background.Go(func() { sess.cancel(s.tell(table, sess, stream)) })
	<-sess.ctx.Done()
	err = context.Cause(sess.ctx)
	s.log.Info("session ended", "node", sess.Node(), "why", err)
	return sessionEnd(err)
}

// awaitLeader waits briefly until a leader is known, which may be this coordinator. Agents come back at once when a
// leader is gone, and so learn the next one without asking repeatedly.
func (s *Service) awaitLeader(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaderWithin)
	defer cancel()
	select {
	case <-s.replica.LeaderKnown():
	case <-ctx.Done():
	}
}

// tell sends orders, acknowledgements and rosters whenever they change, until the session ends.
func (s *Service) tell(table *Table, sess *session, stream v1.AgentService_SessionServer) error {
	sender := NewSender(sess.Presence, NewOrderBook(sess.Node(), s.config.Launcher, s.config.Unseal))
	welcome := &v1.Welcome{CoordinatorId: s.config.ID, Term: table.term, HeartbeatIntervalMs: int32(s.config.Heartbeat.Milliseconds())}
	for _, first := range sender.Begin(welcome, s.replica.View()) {
		if err := stream.Send(first); err != nil {
			return err
		}
	}
	sess.poke()
	var told *roster
	for {
		select {
		case <-sess.ctx.Done():
			return context.Cause(sess.ctx)
		case <-sess.wake:
		}
		for _, ack := range sender.Acks(sess.reported.Load()) {
			if err := stream.Send(ack); err != nil {
				return err
			}
		}
		if now := table.roster.Load(); now != told {
			if told = now; now.version != 0 {
				if err := now.send(stream); err != nil {
					return err
				}
			}
		}
		if sess.dirty.Swap(false) {
			if orders := sender.Orders(s.replica.View()); orders != nil {
				if err := stream.Send(orders); err != nil {
					return err
				}
			}
		}
	}
}

// causeOr returns the reason why the session ended rather than the error that it caused.
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
	case errors.Is(err, errReplaced), errors.Is(err, ErrSilent), errors.Is(err, ErrAgain):
		return call.Errorf(codes.Aborted, "%s", err.Error())
	case errors.Is(err, context.Canceled):
		return call.Errorf(codes.Canceled, "the agent closed the stream")
	}
	return err
}

// receiveHello waits for the first message, with a limit: the context of a stream ends when its handler returns.
func (s *Service) receiveHello(stream v1.AgentService_SessionServer) (*v1.Hello, error) {
	type first struct {
		req *v1.SessionRequest
		err error
	}
	got := make(chan first, 1)
	s.config.Background.Go(func() {
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
		return nil, call.Errorf(codes.DeadlineExceeded, "no hello arrived in time")
	}
}

// register updates the node in the state. If the node has not changed, nothing is written. A start of the agent is
// always written, because the state learns from it which of the tasks that may still be alive are gone.
func (s *Service) register(ctx context.Context, hello *v1.Hello) error {
	command := Registration(hello)
	if Registered(s.replica.View(), &command.Node) {
		return nil
	}
	result, err := replica.Propose[nodeverbs.NodeResult](ctx, s.replica, command)
	if err != nil {
		return err
	}
	if result.Refusal != nil {
		return call.Refused(result.Refusal)
	}
	return nil
}

// Registered reports whether a node that says hello need not be registered again: it is reachable and on the roster,
// its agent has not restarted, it has not lost its roster, and no task of an earlier attempt may still be alive there.
func Registered(v *fsm.View, n *work.Node) bool {
	row, ok := v.Node(n.ID)
	return ok && row.UnreachableSince == 0 && row.RosterSince != 0 && n.Incarnation != 0 && row.Incarnation == n.Incarnation &&
		row.RosterAcked <= n.RosterAcked && sameNode(row, n, v.Level()) && len(v.AwaitedOn(n.ID)) == 0
}
