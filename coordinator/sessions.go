package coordinator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// settleTime is how long a node must have been in session before it is given a task that may still be alive on a node
// that is cut off: rule R3, W plus what the longest stop in run-on mode takes, with room.
const settleTime = 8 * time.Second

// Why a session ends.
var (
	errReplaced   = errors.New("the node opened another session")
	errSilent     = errors.New("the node was not heard of in time")
	errAgain      = errors.New("the node was declared lost, and has to register anew")
	errNotLeading = errors.New("this coordinator does not lead (any more)")
)

// sessionTable is the nodes in session with this coordinator. It is open only while this coordinator leads. All times in
// it are of this process's monotonic clock.
type sessionTable struct {
	mu     sync.RWMutex
	reign  context.Context // nil: closed
	term   uint64
	opened time.Time
	byNode map[string]*session
	// seen is when each node was last heard of in this term, kept beyond its session; relayed is when a renewal of it last
	// came through another node.
	seen, relayed map[string]time.Time
	// condemned are the nodes of which a verdict is under way: see condemn.
	condemned map[string]bool
	live      sync.WaitGroup
}

// session is one agent's stream.
type session struct {
	node   string
	began  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc
	// wake has room for one: whatever happened since the last look, one look is enough.
	wake  chan struct{}
	dirty atomic.Bool  // orders may have changed
	heard atomic.Int64 // after began
	// registered is set once the state knows the node as it said hello.
	registered atomic.Bool
	// begun is when the first heartbeat came, after began: from then on the agent knows that it is in session, and no
	// longer tells others that it is not. 0: none came yet.
	begun atomic.Int64

	heartbeat atomic.Uint64 // highest seq received
	renewed   atomic.Uint64 // highest seq that may be acknowledged
	reported  atomic.Uint64 // highest seq committed
	relays    relays
	samples   sampled
}

// hear notes that the node said something.
func (s *session) hear() { s.heard.Store(int64(time.Since(s.began))) }

// beat notes a heartbeat.
func (s *session) beat(seq uint64) {
	s.begun.CompareAndSwap(0, max(1, int64(time.Since(s.began))))
	s.heartbeat.Store(seq)
}

// heardAt is when the node last said something.
func (s *session) heardAt() time.Time { return s.began.Add(time.Duration(s.heard.Load())) }

func (s *session) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// open begins a reign.
func (t *sessionTable) open(reign context.Context, term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reign, t.term, t.opened = reign, term, time.Now()
	t.byNode, t.seen, t.relayed = map[string]*session{}, map[string]time.Time{}, map[string]time.Time{}
	t.condemned = map[string]bool{}
}

// close ends all sessions and waits until they are gone.
func (t *sessionTable) close() {
	t.mu.Lock()
	t.reign = nil
	for _, s := range t.byNode {
		s.cancel(errNotLeading)
	}
	t.mu.Unlock()
	t.live.Wait()
}

// leading says whether the table is open.
func (t *sessionTable) leading() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.reign != nil
}

// enter begins a session, and ends an older one of the same node. leave must follow.
func (t *sessionTable) enter(ctx context.Context, node string) (s *session, term uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reign == nil {
		return nil, 0, errNotLeading
	}
	if old := t.byNode[node]; old != nil {
		old.cancel(errReplaced)
	}
	s = &session{node: node, began: time.Now(), wake: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	t.byNode[node] = s
	t.live.Add(1)
	return s, t.term, nil
}

func (t *sessionTable) leave(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.cancel(nil)
	if t.byNode[s.node] == s {
		delete(t.byNode, s.node)
		t.seen[s.node] = s.heardAt()
	}
	t.live.Done()
}

// end ends the session of a node, if it has one.
func (t *sessionTable) end(node string, why error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if s := t.byNode[node]; s != nil {
		s.cancel(why)
	}
}

// again ends the session of a node that is registered, so that it registers anew.
func (t *sessionTable) again(node string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if s := t.byNode[node]; s != nil && s.registered.Load() {
		s.cancel(errAgain)
	}
}

// wake tells the sessions of these nodes that their orders may have changed.
func (t *sessionTable) wake(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, n := range nodes {
		if s := t.byNode[n]; s != nil {
			s.dirty.Store(true)
			s.poke()
		}
	}
}

func (t *sessionTable) wakeAll() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.byNode {
		s.dirty.Store(true)
		s.poke()
	}
}

// pokeAll lets all sessions look for what is there for everybody.
func (t *sessionTable) pokeAll() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.byNode {
		s.poke()
	}
}

// pardon grants everybody one fresh period: this coordinator did not listen for a while, so that their silence says
// nothing.
func (t *sessionTable) pardon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opened = time.Now()
}

// relayedFor notes that a renewal of a node came through another one. It is false when that renews nothing: a verdict on
// the node may be on its way into the log.
func (t *sessionTable) relayedFor(node string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reign == nil || t.condemned[node] {
		return false
	}
	t.relayed[node] = time.Now()
	return true
}

// condemn keeps a node from being renewed through others, from before its silence is measured for a verdict until the
// verdict is refused (absolve), or the node registers: what it holds would be renewed and lost at once.
func (t *sessionTable) condemn(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reign != nil {
		t.condemned[node] = true
	}
}

// absolve ends it.
func (t *sessionTable) absolve(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.condemned, node)
}

// listened is for how long this reign has gone on without a pardon.
func (t *sessionTable) listened() time.Duration {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return time.Since(t.opened)
}

// lastSeen is when a node was last heard of itself, and not before the beginning of this term: a new leader grants
// everybody one fresh period before it judges. ok is false when this coordinator does not lead.
func (t *sessionTable) lastSeen(node string) (at time.Time, inSession, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.reign == nil {
		return time.Time{}, false, false
	}
	at = t.opened
	s := t.byNode[node]
	if s != nil {
		at = later(at, s.heardAt())
	} else if seen, ok := t.seen[node]; ok {
		at = later(at, seen)
	}
	return at, s != nil, true
}

// lastRenewed is when the leases of a node were last renewed, by itself or through another node, and not before the
// beginning of this term. through says that the last one came through another node.
func (t *sessionTable) lastRenewed(node string) (at time.Time, through, ok bool) {
	at, _, ok = t.lastSeen(node)
	t.mu.RLock()
	defer t.mu.RUnlock()
	if relayed, any := t.relayed[node]; ok && any && relayed.After(at) {
		return relayed, true, true
	}
	return at, false, ok
}

// settled says whether a node has been in session for so long, and was heard of lately, that a task may be started there
// which may still be alive on a node that is cut off (rule R3).
func (t *sessionTable) settled(node string, lately time.Duration) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.byNode[node]
	return s != nil && s.settled(time.Now(), lately)
}

func (s *session) settled(now time.Time, lately time.Duration) bool {
	begun := time.Duration(s.begun.Load())
	return begun != 0 && now.Sub(s.began.Add(begun)) > settleTime && now.Sub(s.heardAt()) <= lately
}

// allSettled lists the nodes of which settled is true, in order.
func (t *sessionTable) allSettled(lately time.Duration) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var nodes []string
	now := time.Now()
	for node, s := range t.byNode {
		if s.settled(now, lately) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
