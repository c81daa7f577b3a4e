package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/fsm"
)

// Reasons for the end of a session.
var (
	ErrSilent     = errors.New("the node was silent for too long")
	ErrAgain      = errors.New("the node was declared lost, and must register again")
	errReplaced   = errors.New("the node opened another session")
	errNotLeading = errors.New("this coordinator is not the leader")
)

// Table has the sessions of one term. It is created when the term begins, and Close ends it.
type Table struct {
	// Liveness receives the contacts and renewals of the sessions.
	Liveness *liveness.Term
	term     uint64

	// due has a token when a round of renewals is due, rosterDue when the roster may have to be sent or recorded.
	due, rosterDue chan struct{}
	roster         atomic.Pointer[roster]

	mu     sync.RWMutex
	closed bool
	byNode map[string]*session
	live   sync.WaitGroup
}

// NewTable returns the table of a term. Agents get the number of the term.
func NewTable(number uint64, term *liveness.Term, v *fsm.View) *Table {
	t := &Table{
		Liveness: term, term: number, byNode: map[string]*session{},
		due: make(chan struct{}, 1), rosterDue: make(chan struct{}, 1),
	}
	t.roster.Store(newRoster(v))
	return t
}

// session is one agent's stream.
type session struct {
	*liveness.Presence
	ctx    context.Context
	cancel context.CancelCauseFunc
	// wake has room for one token, because one update covers any number of changes.
	wake  chan struct{}
	dirty atomic.Bool // orders may have changed

	reported atomic.Uint64 // highest report that is committed
	samples  sampled
}

func (s *session) poke() { signal(s.wake) }

// signal puts a token into a channel with room for one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// enter starts a session, and ends an older one of the same node. The caller must call leave.
func (t *Table) enter(ctx context.Context, node string) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errNotLeading
	}
	if old := t.byNode[node]; old != nil {
		old.cancel(errReplaced)
	}
	s := &session{wake: make(chan struct{}, 1)}
	s.Presence = t.Liveness.Enter(node, time.Now(), s.poke)
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	t.byNode[node] = s
	t.live.Add(1)
	return s, nil
}

func (t *Table) leave(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.cancel(nil)
	t.Liveness.Leave(s.Presence)
	if t.byNode[s.Node()] == s {
		delete(t.byNode, s.Node())
	}
	t.live.Done()
}

// Close ends all sessions, accepts no more, and waits until they are gone.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	for _, s := range t.byNode {
		s.cancel(errNotLeading)
	}
	t.mu.Unlock()
	t.live.Wait()
}

// End ends the sessions of some nodes.
func (t *Table) End(why error, nodes ...string) {
	t.each(nodes, func(s *session) { s.cancel(why) })
}

// Wake tells the sessions of these nodes that their orders may have changed.
func (t *Table) Wake(nodes []string) {
	t.each(nodes, func(s *session) {
		s.dirty.Store(true)
		s.poke()
	})
}

// WakeAll tells all sessions that their orders may have changed.
func (t *Table) WakeAll() {
	t.all(func(s *session) {
		s.dirty.Store(true)
		s.poke()
	})
}

func (t *Table) each(nodes []string, do func(*session)) {
	if len(nodes) == 0 {
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, n := range nodes {
		if s := t.byNode[n]; s != nil {
			do(s)
		}
	}
}

func (t *Table) all(do func(*session)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.byNode {
		do(s)
	}
}

// RenewalDue returns a channel that has a token when a round of renewals is due.
func (t *Table) RenewalDue() <-chan struct{} { return t.due }

// AskRenewal asks for a round of renewals.
func (t *Table) AskRenewal() { signal(t.due) }

// activity returns the sessions' data about one node, or about all.
func (t *Table) activity(node string) Activity {
	found := Activity{}
	note := func(s *session) {
		at, _ := t.Liveness.LastSeen(s.Node())
		found[s.Node()] = &v1.NodeActivity{NodeId: s.Node(), LastSeenAt: timestamppb.New(at), Gpus: s.samples.get()}
	}
	if node == "" {
		t.all(note)
	} else {
		t.each(slices.Insert([]string(nil), 0, node), note)
	}
	return found
}
