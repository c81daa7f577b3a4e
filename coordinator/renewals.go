package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/fsm"
)

const (
	// renewPace is the least time between two rounds of renewals. A lease counts from when its heartbeat was sent, so an
	// acknowledgement that comes a little later costs the node nothing.
	renewPace = 200 * time.Millisecond
	// verifyTime bounds one proof of leadership, on a machine that keeps up.
	verifyTime = 2 * time.Second
	// maxRelays bounds the renewals of other nodes that wait in one session; past that they are dropped, and come again.
	maxRelays = 4096
)

// A heartbeat is acknowledged only after a majority of the voters confirmed this reign in an exchange that began after the
// heartbeat had arrived. So a leader that was deposed renews nothing, and whatever a new leader counts from the beginning
// of its reign counts from after the last renewal. One exchange serves all heartbeats that wait for it.

// renewals says when a round is due.
type renewals struct {
	mu  sync.Mutex
	due chan struct{}
}

// ask asks for a round. Outside of a reign nothing comes of it.
func (r *renewals) ask() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.due <- struct{}{}:
	default:
	}
}

// begin begins a reign, with a channel that holds nothing of the one before.
func (r *renewals) begin() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = make(chan struct{}, 1)
	return r.due
}

// relays are the renewals of other nodes that came in one session.
type relays struct {
	mu sync.Mutex
	// waiting is what is not verified yet, ready what may be acknowledged.
	waiting, ready []*v1.RenewalAck
}

func (r *relays) put(ack *v1.RenewalAck) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) < maxRelays {
		r.waiting = append(r.waiting, ack)
	}
}

func (r *relays) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// confirm makes the first n of what waits ready.
func (r *relays) confirm(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = append(r.ready, r.waiting[:n]...)
	r.waiting = append([]*v1.RenewalAck(nil), r.waiting[n:]...)
}

func (r *relays) take() []*v1.RenewalAck {
	r.mu.Lock()
	defer r.mu.Unlock()
	ready := r.ready
	r.ready = nil
	return ready
}

// unverified is what one session waits for.
type unverified struct {
	session   *session
	heartbeat uint64
	relayed   int
}

// unverified lists what has arrived and is not verified yet.
func (t *sessionTable) unverified(buf []unverified) []unverified {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.byNode {
		w := unverified{session: s, heartbeat: s.heartbeat.Load(), relayed: s.relays.count()}
		if w.heartbeat != s.renewed.Load() || w.relayed > 0 {
			buf = append(buf, w)
		}
	}
	return buf
}

// renewer runs the rounds of one reign.
type renewer struct {
	sessions *sessionTable
	// verify proves leadership by an exchange that begins after the call.
	verify func(context.Context) error
	pace   time.Duration
	log    *slog.Logger
	// counted is told how many renewals a round made.
	counted func(direct, relayed int)
	round   []unverified
}

func (s *server) renew(ctx context.Context, term uint64, due <-chan struct{}) {
	r := &renewer{
		sessions: &s.sessions, pace: min(renewPace, s.config.Timers.AgentHeartbeat/5), log: s.log, counted: s.metrics.renewed,
		verify: func(ctx context.Context) error { return s.verify(ctx, term) },
	}
	r.run(ctx, due, s.renewals.ask)
}

// run runs a round whenever one is due, and asks for another one when it failed.
func (r *renewer) run(ctx context.Context, due <-chan struct{}, again func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-due:
		}
		began := time.Now()
		if err := r.once(ctx); err != nil {
			if ctx.Err() != nil {
				return
			}
			r.log.Warn("renewals wait: this leader could not be verified", "error", err)
			again()
		}
		wait.For(ctx, r.pace-time.Since(began))
	}
}

// once acknowledges what had arrived when the proof began, and nothing that came later.
func (r *renewer) once(ctx context.Context) error {
	r.round = r.sessions.unverified(r.round[:0])
	if len(r.round) == 0 {
		return nil
	}
	if err := r.verify(ctx); err != nil {
		return err
	}
	direct, relayed := 0, 0
	for _, w := range r.round {
		if w.heartbeat != w.session.renewed.Load() {
			direct++
		}
		relayed += w.relayed
		w.session.renewed.Store(w.heartbeat)
		w.session.relays.confirm(w.relayed)
		w.session.poke()
	}
	r.counted(direct, relayed)
	return nil
}

// errOtherTerm says that leadership was proven, but that of another reign of this coordinator.
var errOtherTerm = errors.New("leading in another term")

// verify proves that this coordinator leads in a term, by an exchange that begins after the call.
func (s *server) verify(ctx context.Context, term uint64) error {
	ctx, cancel := context.WithTimeout(ctx, max(verifyTime, 2*s.replica.Raft().Timeout()))
	defer cancel()
	began := time.Now()
	_, now, err := s.replica.Raft().ReadIndex(ctx)
	switch {
	case err != nil:
		return err
	case now != term:
		return errOtherTerm
	}
	s.attention.proven(began)
	return nil
}

// relay takes in the renewal of another node. It renews what the other node holds, and does not make it reachable: nothing
// new may be given to a node to which orders do not come through. A renewal after a restart of the machine renews
// nothing: what the state has there is gone.
func (s *server) relay(through *session, r *v1.Renewal) {
	row, ok := s.replica.View().Node(r.GetNodeId())
	if !ok || r.GetNodeId() == through.node || !mayRenew(row, r.GetBootId()) || !s.sessions.relayedFor(row.ID) {
		return
	}
	s.rosters.kept(row.ID, r.GetRosterVersion())
	through.relays.put(&v1.RenewalAck{NodeId: row.ID, Seq: r.GetSeq()})
	s.renewals.ask()
}

// mayRenew says whether leases of a node can be renewed through another one. Those of a node that was declared lost cannot:
// it may have been ordered to run what is at work elsewhere by now, and learns of that only when it registers again.
func mayRenew(row *fsm.Node, boot string) bool { return row.BootID == boot && row.LostSince == 0 }
