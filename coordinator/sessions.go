package coordinator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Why a session ends.
var (
	errReplaced   = errors.New("the node opened another session")
	errSilent     = errors.New("the node was not heard of in time")
	errNotLeading = errors.New("this coordinator does not lead (any more)")
)

// sessionTable is the nodes in session with this coordinator. It is open only while this coordinator leads.
type sessionTable struct {
	mu     sync.RWMutex
	reign  context.Context // nil: closed
	term   uint64
	opened time.Time
	byNode map[string]*session
	// seen is when each node was last heard of in this term, kept beyond its session.
	seen map[string]time.Time
	live sync.WaitGroup
}

// session is one agent's stream.
type session struct {
	node   string
	ctx    context.Context
	cancel context.CancelCauseFunc
	// wake has room for one: whatever happened since the last look, one look is enough.
	wake  chan struct{}
	dirty atomic.Bool // orders may have changed
	heard atomic.Int64

	heartbeat atomic.Uint64 // highest seq received
	reported  atomic.Uint64 // highest seq committed
}

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
	t.byNode, t.seen = map[string]*session{}, map[string]time.Time{}
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
	s = &session{node: node, wake: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.heard.Store(time.Now().UnixNano())
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
		t.seen[s.node] = time.Unix(0, s.heard.Load())
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

// pardon grants everybody one fresh period: this coordinator did not listen for a while, so that their silence says
// nothing.
func (t *sessionTable) pardon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opened = time.Now()
}

// lastSeen is when a node was last heard of, and not before the beginning of this term: a new leader grants everybody
// one fresh period before it judges. ok is false when this coordinator does not lead.
func (t *sessionTable) lastSeen(node string) (at time.Time, inSession, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.reign == nil {
		return time.Time{}, false, false
	}
	at = t.opened
	s := t.byNode[node]
	if s != nil {
		at = later(at, time.Unix(0, s.heard.Load()))
	} else if seen, ok := t.seen[node]; ok {
		at = later(at, seen)
	}
	return at, s != nil, true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
