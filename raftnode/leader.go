package raftnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// errPeriodOver is the cause of the context of a leader-only loop that ended.
var errPeriodOver = errors.New("no longer the leader")

// transferPause is how long a new leader waits before it tries its barrier
// again while raft hands leadership on.
const transferPause = 20 * time.Millisecond

// period is one term of leadership of this replica.
//
// Raft announces the end of a period and the start of the next on one
// unbuffered channel, and stands still until each is received. So while a
// context lives, nothing of a later period has happened on this replica, and
// "the context lives" means the same as "the term is the same".
type period struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	// ready is closed once every entry of earlier terms is applied here; term
	// is set before.
	ready chan struct{}
	term  uint64
}

// watchLeadership turns raft's announcements into terms.
func (n *Node) watchLeadership() {
	for {
		select {
		case leads := <-n.notify:
			n.pacing.leading(leads)
			n.endPeriod()
			if leads {
				n.beginPeriod()
			}
		case <-n.background.Done():
			n.endPeriod()
			return
		}
	}
}

func (n *Node) beginPeriod() {
	r := &period{ready: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(n.background)
	n.leading.Store(r)
	n.changes.signal()
	n.running.Go(func() { n.establish(r) })
}

func (n *Node) endPeriod() {
	if r := n.leading.Swap(nil); r != nil {
		r.cancel(errPeriodOver)
		n.changes.signal()
	}
}

// establish commits a barrier: only a leader that has committed an entry of its
// own term knows what is committed.
func (n *Node) establish(r *period) {
	for r.ctx.Err() == nil {
		// Read before the barrier is handed over: a leader steps down before
		// its term changes, so if this is already a later term, the barrier
		// fails.
		term := n.raft.CurrentTerm()
		err := n.barrier()
		switch {
		case err == nil && r.ctx.Err() == nil:
			r.term = term
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

// Lead runs fn each time this replica leads, from when everything that earlier
// leaders committed is applied. The context of fn ends when leadership does;
// Lead waits for fn to return before anything else. An fn that returns earlier
// is not called again until the next term. Lead returns when ctx ends or the
// node stops.
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

// LeaderChanges returns a channel that is signalled after each change of who
// leads or of whether this replica does. Signals that nobody received yet
// become one. Call stop when done.
func (n *Node) LeaderChanges() (changes <-chan struct{}, stop func()) {
	return n.changes.subscribe()
}

// observe listens to raft. The filter of an observer is called on raft's own
// goroutine for every observation, so none is dropped; it must not block.
func (n *Node) observe() {
	n.raft.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		if _, ok := o.Data.(raft.LeaderObservation); ok {
			n.changes.signal()
		}
		return false
	}))
}

// Timeout is how long this replica now waits for its leader before it stands for
// election (up to twice this): Config.HeartbeatTimeout on a machine that keeps
// up. What waits for a majority should wait for longer.
func (n *Node) Timeout() time.Duration { return n.pacing.timeout() }

// Transfer hands leadership to the server, or when id is empty to the most up to
// date of those that answer.
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

// handOver hands leadership to a voter, or when none is given to one that raft
// picks.
func (n *Node) handOver(ctx context.Context, to Peer) error {
	if to.ID == "" {
		return n.transferred(await(ctx, n.raft.LeadershipTransfer()))
	}
	return n.transferred(await(ctx, n.raft.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(to.Addr))))
}

// heir is who should lead next: of the voters that answer, the one that has most
// of the log, or else answered last. Raft would go by what it has sent, also to
// one that is gone. An empty Peer says that none answers.
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

// subscriptions are channels that are signalled together.
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
