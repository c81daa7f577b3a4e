package coordinator

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// observe is called on the applying goroutine after each entry: it wakes who waits for what changed, and no more.
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
		case fsm.TopicJob, fsm.TopicLease:
			s.sessions.wake(e.Nodes)
		case fsm.TopicState:
			nodes = true
			s.sessions.wakeAll()
		case fsm.TopicCoordinator:
			s.refreshHint()
		}
	}
	if nodes {
		s.inventory.stale.Store(true)
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

// largestNodes knows the size of the largest node of each GPU type; it is worked out again when nodes changed.
type largestNodes struct {
	machine *fsm.Machine
	stale   atomic.Bool
	mu      sync.Mutex
	byType  map[string]int
}

// LargestNode implements inventory.
func (l *largestNodes) LargestNode(gpuType string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale.Swap(false) || l.byType == nil {
		l.byType = map[string]int{}
		for n := range l.machine.View().Nodes() {
			l.count(n)
		}
	}
	return l.byType[strings.ToLower(gpuType)]
}

func (l *largestNodes) count(n *fsm.Node) {
	here := map[string]int{}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Health == v1.GpuHealth_VANISHED {
			continue
		}
		here[""]++
		here[strings.ToLower(g.Type)]++
		if !strings.EqualFold(g.Model, g.Type) {
			here[strings.ToLower(g.Model)]++
		}
	}
	for name, count := range here {
		l.byType[name] = max(l.byType[name], count)
	}
}
