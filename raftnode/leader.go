package raftnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// errPeriodOver is the cause of a period's context when the period has ended.
var errPeriodOver = errors.New("no longer the leader")

// transferPause is the pause before a new leader tries its barrier again while raft transfers leadership.
const transferPause = 20 * time.Millisecond

// period is a term in which this replica leads.
//
// Raft announces the end of a period and the start of the next one on an unbuffered channel, and waits until each
// announcement is received. So before the context of a period is canceled, nothing of a later period has happened on
// this replica: as long as the context is not canceled, the term is the same.
type period struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	// ready is closed when every entry of earlier terms is applied here. term and began, the time of it, are set before that.
	ready chan struct{}
	term  uint64
	began time.Time
	// heard is when this replica last heard of a leader before the period.
	heard time.Time
}

// watchLeadership begins and ends periods as raft announces them.
func (n *Node) watchLeadership() {
	for {
		select {
		case leads := <-n.notify:
			n.pacing.leading(leads)
			n.endPeriod()
			if leads {
				heard, _ := n.LostLeader()
				n.beginPeriod(heard)
			}
		case <-n.background.Done():
			n.endPeriod()
			return
		}
	}
}

func (n *Node) beginPeriod(heard time.Time) {
	r := &period{ready: make(chan struct{}), heard: heard}
	r.ctx, r.cancel = context.WithCancelCause(n.background)
	n.leading.Store(r)
	n.changes.signal()
	n.running.Go(func() { n.establish(r) })
}

func (n *Node) endPeriod() {
	r := n.leading.Swap(nil)
	if r == nil {
		return
	}
	r.cancel(errPeriodOver)
	n.changes.signal()
}

// Gap returns for how long no leader took writes before the one that this replica is: from heard, when somebody last heard of a
// leader, until every entry of earlier terms was applied here. If heard is zero, it takes the time when this replica did. 0: it
// does not lead, or nothing is known of an earlier leader.
func (n *Node) Gap(heard time.Time) time.Duration {
	r, ok := n.ruling()
	if !ok {
		return 0
	}
	if heard.IsZero() {
		heard = r.heard
	}
	if heard.IsZero() {
		return 0
	}
	return max(r.began.Sub(heard), 1) // 0 is unknown
}

// loss is when a replica lost its leader.
type loss struct {
	heard time.Time
	term  uint64
}

// LostLeader returns when this replica last heard of the leader that it lost last, and the term in which it lost it. Zero: it has
// lost none since its start.
func (n *Node) LostLeader() (heard time.Time, term uint64) {
	if l := n.lost.Load(); l != nil {
		return l.heard, l.term
	}
	return time.Time{}, 0
}

// establish commits a barrier: only a leader that has committed an entry of its own term knows which entries are
// committed.
func (n *Node) establish(r *period) {
	for r.ctx.Err() == nil {
		// The term is read before the barrier is sent. A leader steps down before its term changes, so if this is
		// already a later term, the barrier fails.
		term := n.raft.CurrentTerm()
		err := n.barrier()
		switch {
		case err == nil && r.ctx.Err() == nil:
			r.term, r.began = term, time.Now()
			close(r.ready)
			n.changes.signal()
			n.log.Info("leading", "term", term)
			return
		case errors.Is(err, raft.ErrLeadershipTransferInProgress):
			select {
			case <-time.After(transferPause):
			case <-r.ctx.Done():
			}
		default:
			return
		}
	}
}

func (n *Node) barrier() error {
	if !n.gate.enter() {
		return ErrStopped
	}
	defer n.gate.leave()
	return await(n.background, n.raft.ApplyLog(raft.Log{}, enqueueTime))
}

// Leader returns the id and raft address of the leader as far as this replica
// knows; both are empty when it knows none.
func (n *Node) Leader() (id, addr string) {
	a, i := n.raft.LeaderWithID()
	return string(i), string(a)
}

// IsLeader reports whether this replica leads and has applied everything that
// earlier leaders committed.
func (n *Node) IsLeader() bool {
	_, ok := n.ruling()
	return ok
}

func (n *Node) ruling() (*period, bool) {
	r := n.leading.Load()
	if r == nil {
		return nil, false
	}
	select {
	case <-r.ready:
		return r, r.ctx.Err() == nil
	default:
		return nil, false
	}
}

// Lead calls fn in each term in which this replica leads, after it has applied everything that earlier leaders
// committed. The context of fn is canceled when leadership ends, and Lead waits until fn has returned. If fn returns
// earlier, it is not called again before the next term. Lead returns when ctx ends or the node stops.
func (n *Node) Lead(ctx context.Context, fn func(ctx context.Context, term uint64)) {
	changes, unsubscribe := n.LeaderChanges()
	defer unsubscribe()
	var last *period
	for {
		if r, ok := n.ruling(); ok && r != last {
			last = r
			rule(ctx, r, fn)
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return
		case <-n.stopping:
			return
		}
	}
}

func rule(ctx context.Context, r *period, fn func(ctx context.Context, term uint64)) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })()
	fn(ctx, r.term)
}

// LeaderChanges returns a channel that is signalled after each change of the leader, and when this replica begins or
// ceases to lead. Signals that were not received are merged. The caller must call stop.
func (n *Node) LeaderChanges() (changes <-chan struct{}, stop func()) {
	return n.changes.subscribe()
}

// observe signals each change of the leader, and keeps when one was lost. It uses the filter of an observer, because raft calls it
// for every observation and drops none. Raft calls it on its own goroutine, so it must not block, and in Shutdown on the one that
// stops it.
func (n *Node) observe() {
	var mine atomic.Bool // this replica was the leader
	n.raft.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		if now, ok := o.Data.(raft.LeaderObservation); ok {
			if now.LeaderID == "" {
				l := &loss{heard: n.raft.LastContact(), term: n.raft.CurrentTerm()}
				if mine.Load() {
					l.heard = time.Now()
				}
				n.lost.Store(l)
			}
			mine.Store(string(now.LeaderID) == n.cfg.ID)
			n.changes.signal()
		}
		return false
	}))
}

// Timeout returns how long this replica currently waits for its leader before it stands for election; it waits up to
// twice as long. On a machine that is fast enough it is Config.HeartbeatTimeout. A caller that waits for a majority
// should wait longer than this.
func (n *Node) Timeout() time.Duration { return n.pacing.timeout() }

// Transfer transfers leadership to a voter; if id is empty, to the most up to date of those that answer.
func (n *Node) Transfer(ctx context.Context, id string) error {
	if !n.gate.enter() {
		return ErrStopped
	}
	defer n.gate.leave()
	if id == "" {
		return n.handOver(ctx, n.heir())
	}
	for _, p := range n.Peers() {
		if p.ID == id && p.Voter {
			return n.handOver(ctx, p)
		}
	}
	return fmt.Errorf("%w: hand leadership over: %s is not a voter", ErrNotSent, id)
}

// handOver transfers leadership to a voter; if none is given, to one that raft picks.
func (n *Node) handOver(ctx context.Context, to Peer) error {
	if to.ID == "" {
		return n.transferred(await(ctx, n.raft.LeadershipTransfer()))
	}
	return n.transferred(await(ctx, n.raft.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(to.Addr))))
}

// heir returns the voter that should lead next: of those that answer, the one with the longest log, and of several such
// the one that answered last. Raft would pick by the entries that it has sent, even if the voter is gone. If no voter
// answers, heir returns an empty Peer.
func (n *Node) heir() (best Peer) {
	since := time.Now().Add(-2 * n.Timeout())
	for _, p := range n.Peers() {
		if !p.Voter || p.ID == n.cfg.ID || !p.Heard.After(since) {
			continue
		}
		if best.ID == "" || cmp.Or(cmp.Compare(p.LastIndex, best.LastIndex), p.Heard.Compare(best.Heard)) > 0 {
			best = p
		}
	}
	return best
}

func (n *Node) transferred(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		return n.notLeader()
	default:
		return fmt.Errorf("hand leadership over: %w", err)
	}
}

// subscriptions is a set of channels that are signalled together.
type subscriptions struct {
	mu   sync.Mutex
	subs map[chan struct{}]struct{}
}

func (s *subscriptions) subscribe() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subs == nil {
		s.subs = map[chan struct{}]struct{}{}
	}
	s.subs[ch] = struct{}{}
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subs, ch)
	}
}

func (s *subscriptions) signal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
