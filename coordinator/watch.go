package coordinator

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mindcoordinator/mind/fsm"
)

// observe is called on the applying goroutine after each entry: it wakes only the waiters whose view changed.
func (s *server) observe(v *fsm.View, events []fsm.Event) {
	if !s.started.Load() {
		return
	}
	s.watch.signal()
	nodes := false
	for i := range events {
		e := &events[i]
		switch e.Topic {
		case fsm.TopicNode:
			nodes = true
			s.sessions.wake(e.Nodes)
			s.capacity.changed(e.Nodes)
		case fsm.TopicJob, fsm.TopicLease:
			s.sessions.wake(e.Nodes)
		case fsm.TopicState:
			nodes = true
			s.sessions.wakeAll()
			s.capacity.replaced()
		case fsm.TopicCoordinator:
			s.refreshHint()
		}
	}
	if nodes {
		s.rosters.changed()
	}
	s.demand.note(events)
	s.metrics.observe(v, events)
}

// watch lets goroutines wait for the next view. It costs nothing while nobody waits.
type watch struct {
	waiting atomic.Bool
	mu      sync.Mutex
	next    chan struct{}
}

func (w *watch) signal() {
	if !w.waiting.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting.Store(false)
	if w.next != nil {
		close(w.next)
		w.next = nil
	}
}

func (w *watch) changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == nil {
		w.next = make(chan struct{})
	}
	w.waiting.Store(true)
	return w.next
}

// newerView waits for a view newer than an index.
func (s *server) newerView(ctx context.Context, after uint64) (*fsm.View, error) {
	for {
		changed := s.watch.changed()
		if v := s.machine.View(); v.Index() > after {
			return v, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.life.Done():
			return nil, notSent("shutting down")
		}
	}
}
