package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

const (
	dialTimeout = 500 * time.Millisecond
	// welcomeTimeout bounds the time from a connection to the first answer,
	// which comes after the node was registered in the replicated state.
	welcomeTimeout = 5 * time.Second
	retryMin       = 20 * time.Millisecond
	// retryLost is the longest pause while the session has been lost for
	// less than lostFor: somebody is being elected. Asking more often
	// does not shorten an election that takes longer.
	retryLost = 200 * time.Millisecond
	lostFor   = 5 * time.Second
	retryMax  = 2 * time.Second
	// brief is how long a session must last to have been worth its while. One that ends sooner is not begun again at once: a
	// leader that is handing over takes sessions, and ends them at the first report.
	brief = time.Second
	// sendPause is the least time between two messages with reports: each costs
	// the cluster a commit, and a busy node has many to make.
	sendPause = 15 * time.Millisecond
	// defaultHeartbeat is used when the coordinator names none.
	defaultHeartbeat = time.Second
	// silence is how many heartbeats may go unanswered, and leastPatience how long
	// at least.
	silence       = 4
	leastPatience = 4 * time.Second
)

// session keeps the agent in touch with the leader.
type session struct {
	agent *agent
	reach reach

	preferred string
	term      uint64
	lostAt    time.Time
	// out is since when no session could be opened, why what the last try said, and told when that was last logged.
	out, told time.Time
	why       error
	again     chan struct{}
	live      atomic.Bool
	connected atomic.Int64
}

func newSession(a *agent) *session {
	s := &session{agent: a, reach: reach{network: a.cfg.Machine.Network, creds: insecure.NewCredentials()}, again: make(chan struct{}, 1)}
	if a.clientTLS != nil {
		s.reach.creds = a.clientTLS.Credentials()
	}
	return s
}

// restart asks for a new session, which tells all orders anew.
func (s *session) restart() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// run holds sessions, one after another, until the context ends.
func (s *session) run(ctx context.Context) {
	defer s.reach.keep("")
	pause := retryMin
	for ctx.Err() == nil {
		began := time.Now()
		held, hinted := s.round(ctx)
		s.complain(held)
		if held {
			s.lostAt = time.Now()
			if time.Since(began) >= brief {
				pause = retryMin
				continue
			}
		}
		if hinted {
			// The one that was named may not know yet that it leads.
			pause = min(pause, 4*retryMin)
		}
		longest := retryMax
		if time.Since(s.lostAt) < lostFor {
			longest = retryLost
		}
		pause = min(2*pause, longest)
		sleep(ctx, pause/2+rand.N(pause/2+1))
	}
}

const (
	// complainAfter is how long an agent goes without a session before it says why, and complainPace how often it does.
	complainAfter = 10 * time.Second
	complainPace  = time.Minute
)

// complain says why no session can be opened, when that lasts longer than an election: the coordinators only see a node that is
// silent.
func (s *session) complain(held bool) {
	now := time.Now()
	switch {
	case held:
		s.out = time.Time{}
	case s.out.IsZero():
		s.out, s.told = now, time.Time{}
	case s.why != nil && now.Sub(s.out) >= complainAfter && now.Sub(s.told) >= complainPace:
		s.told = now
		s.agent.log.Warn("no coordinator takes this agent into session", "for", now.Sub(s.out).Round(time.Second), "why", s.why)
	}
}

// round tries every coordinator once, the most likely leader first.
func (s *session) round(ctx context.Context) (held, hinted bool) {
	tried := make(map[string]bool)
	next := s.candidates()
	for len(next) > 0 && ctx.Err() == nil {
		addr := next[0]
		next = next[1:]
		if tried[addr] {
			continue
		}
		tried[addr] = true
		welcomed, hint, err := s.hold(ctx, addr)
		if welcomed {
			s.preferred = addr
			s.agent.log.Info("session ended", "coordinator", addr, "why", err)
			if hint != "" && hint != addr {
				s.preferred = hint
			}
			return true, false
		}
		s.why = fmt.Errorf("%s: %w", addr, err)
		s.agent.log.Debug("no session", "coordinator", addr, "why", err, "leader", hint)
		if hint != "" && !tried[hint] {
			hinted = true
			s.preferred = hint
			next = append([]string{hint}, next...)
		}
	}
	return false, hinted
}

func (s *session) candidates() []string {
	list := slices.Clone(s.agent.cfg.Coordinators)
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if s.preferred != "" {
		list = append([]string{s.preferred}, list...)
	}
	s.reach.order(list)
	return list
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hold opens a session with one coordinator and keeps it as long as it lasts.
func (s *session) hold(ctx context.Context, addr string) (welcomed bool, leader string, err error) {
	conn, err := s.reach.to(addr)
	if err != nil {
		return false, "", fmt.Errorf("dial %s: %w", addr, err)
	}
	began := time.Now()
	var answer metadata.MD
	defer func() { s.reach.tried(addr, answer.Len() > 0, welcomed, time.Since(began), err) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The watchdog ends the stream also when a send hangs in it.
	watchdog := time.AfterFunc(s.reach.connectTime(addr)+s.reach.answerTime(addr, welcomeTimeout), func() { cancel(errSilent) })
	defer watchdog.Stop()
	stream, err := v1.NewAgentServiceClient(conn).Session(ctx)
	if err != nil {
		return false, "", err
	}
	welcomed, err = s.speak(ctx, cancel, addr, stream, watchdog)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	// Drained to its end, the stream has its trailer.
	for {
		if _, err := stream.Recv(); err != nil {
			break
		}
	}
	answer = stream.Trailer()
	if hints := answer.Get(status.KeyLeader); len(hints) > 0 {
		_, leader, _ = strings.Cut(hints[0], "=")
	}
	return welcomed, leader, err
}

// speak says hello and then serves the stream until it breaks.
func (s *session) speak(ctx context.Context, cancel context.CancelCauseFunc, addr string, stream v1.AgentService_SessionClient, watchdog *time.Timer) (welcomed bool, err error) {
	hello := s.agent.hello(ctx)
	if err := stream.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Hello{Hello: hello}}); err != nil {
		// The reason is what Recv says.
		_, err = stream.Recv()
		return false, err
	}
	first, err := stream.Recv()
	if err != nil {
		return false, err
	}
	welcome := first.GetWelcome()
	if welcome == nil {
		return false, errors.New("the coordinator did not begin with a welcome")
	}
	if welcome.GetTerm() < s.term {
		return false, fmt.Errorf("coordinator %s was deposed: its term is %d, and %d was seen", welcome.GetCoordinatorId(), welcome.GetTerm(), s.term)
	}
	s.term = welcome.GetTerm()
	interval := time.Duration(welcome.GetHeartbeatIntervalMs()) * time.Millisecond
	if interval <= 0 {
		interval = defaultHeartbeat
	}
	patience := s.reach.answerTime(addr, max(silence*interval, leastPatience))
	watchdog.Reset(patience)
	s.reach.keep(addr)
	s.agent.log.Info("in session", "coordinator", welcome.GetCoordinatorId(), "term", welcome.GetTerm())
	// It is closed when nothing of it goes on: neither is an order taken up any
	// more, nor can the coordinator hear of this node. It counts as open from the
	// first acknowledgement on (see receive).
	defer s.agent.leases.sessionClosed()
	s.live.Store(true)
	s.connected.Add(1)
	defer s.live.Store(false)
	renewals, closeLink := s.agent.relays.open()

	received := make(chan error, 1)
	var receiver sync.WaitGroup
	receiver.Go(func() { received <- s.receive(ctx, stream, func() { watchdog.Reset(patience) }) })
	err = s.send(ctx, stream, interval, hello.GetGpus(), renewals, received)
	closeLink()
	cancel(err)
	receiver.Wait()
	return true, err
}

// receive ends with the stream. renewed is called when the leader has answered
// another heartbeat: nothing else proves that it leads.
func (s *session) receive(ctx context.Context, stream v1.AgentService_SessionClient, renewed func()) error {
	proven := false
	var roster *v1.Roster
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		switch body := response.GetBody().(type) {
		case *v1.SessionResponse_Ack:
			if s.agent.leases.acked(body.Ack.GetHeartbeatSeq()) {
				renewed()
				if !proven {
					// Until now it was no session for the other agents: a coordinator
					// whose disk hangs still welcomes, and can replace nothing. What this
					// one answers them it is bound by, whatever it answered.
					s.agent.leases.sessionOpened()
				}
				proven = true
			}
			s.agent.outbox.ack(body.Ack.GetReportSeq())
		case *v1.SessionResponse_RelayedAck:
			s.agent.relays.acked(body.RelayedAck)
		case *v1.SessionResponse_Roster:
			roster = body.Roster
		case *v1.SessionResponse_Orders:
			// Posted by this goroutine only, so orders stay in order, and those
			// of an ended session are not taken up behind those of the next.
			s.agent.ask(func() {
				if ctx.Err() == nil {
					s.agent.reconcile(body.Orders)
				}
			})
		}
		if proven && roster != nil {
			// A coordinator that was deposed could send one older than what this node
			// has acknowledged already.
			s.agent.rosters.take(roster)
			roster = nil
		}
	}
}

// send sends heartbeats and reports until the stream breaks.
func (s *session) send(ctx context.Context, stream v1.AgentService_SessionClient, interval time.Duration, gpus []*v1.Gpu, renewals <-chan *v1.Renewal, received <-chan error) error {
	s.agent.outbox.rewind()
	told := toldGPUs{gpus: gpus}
	beat := time.NewTicker(interval)
	defer beat.Stop()
	// The first one at once: without its answer nothing is launched.
	first := make(chan time.Time, 1)
	first <- time.Time{}
	pause := time.NewTimer(0)
	defer pause.Stop()
	resting := true
	for {
		wake := s.agent.outbox.wake
		if resting {
			wake = nil
		}
		// That a GPU is not fit for work is told before the end of the work that was on it.
		select {
		case <-s.agent.gpus.changed:
			if err := s.beat(stream, &told); err != nil {
				return reasonOf(received, err)
			}
		default:
		}
		select {
		case <-s.agent.gpus.changed:
			if err := s.beat(stream, &told); err != nil {
				return reasonOf(received, err)
			}
		case err := <-received:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.again:
			return errors.New("the agent wants all orders anew")
		case <-first:
			if err := s.beat(stream, &told); err != nil {
				return reasonOf(received, err)
			}
		case <-s.agent.rosters.kept:
			// Until the leader knows, what runs here cannot be replaced.
			if err := s.beat(stream, &told); err != nil {
				return reasonOf(received, err)
			}
		case <-beat.C:
			if err := s.beat(stream, &told); err != nil {
				return reasonOf(received, err)
			}
		case renewal := <-renewals:
			if err := stream.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Relayed{Relayed: renewal}}); err != nil {
				return reasonOf(received, err)
			}
		case <-pause.C:
			resting = false
			sent, err := s.sendReports(stream)
			if err != nil {
				return reasonOf(received, err)
			}
			if sent {
				resting = true
				pause.Reset(sendPause)
			}
		case <-wake:
			sent, err := s.sendReports(stream)
			if err != nil {
				return reasonOf(received, err)
			}
			if sent {
				resting = true
				pause.Reset(sendPause)
			}
		}
	}
}

// toldGPUs is what the coordinator knows of the GPUs from this session.
type toldGPUs struct {
	gpus    []*v1.Gpu
	samples uint64
}

// beat sends a heartbeat, with the inventory when it is not what was told last, and with samples when there are new ones.
func (s *session) beat(stream v1.AgentService_SessionClient, t *toldGPUs) error {
	seq, roster := s.agent.leases.renewal()
	heartbeat := &v1.Heartbeat{Seq: seq, RosterVersion: roster}
	if now := s.agent.gpus.current(); !sameGPUs(t.gpus, now) {
		t.gpus, heartbeat.Gpus = now, now
	}
	heartbeat.Samples, t.samples = s.agent.gpus.samplesSince(t.samples)
	return stream.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Heartbeat{Heartbeat: heartbeat}})
}

// sendReports sends one batch.
func (s *session) sendReports(stream v1.AgentService_SessionClient) (sent bool, err error) {
	batch := s.agent.outbox.take()
	if len(batch) == 0 {
		return false, nil
	}
	return true, stream.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Reports{Reports: &v1.ReportBatch{Reports: batch}}})
}

// reasonOf prefers what the receiving side heard: a send only says EOF.
func reasonOf(received <-chan error, err error) error {
	select {
	case reason := <-received:
		return reason
	case <-time.After(time.Second):
		return err
	}
}
