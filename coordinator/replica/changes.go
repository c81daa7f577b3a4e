package replica

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
)

// Changed wakes the callers that wait for a newer view. It is called on the applying goroutine after each entry.
func (r *Replica) Changed() { r.changes.signal() }

// Newer waits for a view newer than an index.
func (r *Replica) Newer(ctx context.Context, after uint64) (*fsm.View, error) {
	for {
		changed := r.changes.next()
		if v := r.View(); v.Index() > after {
			return v, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-r.config.Life.Done():
			return nil, call.NotSent("shutting down")
		}
	}
}

// changes lets goroutines wait for the next view. It costs nothing while nobody waits.
type changes struct {
	waiting atomic.Bool
	mu      sync.Mutex
	coming  chan struct{}
}

func (w *changes) signal() {
	if !w.waiting.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting.Store(false)
	if w.coming != nil {
		close(w.coming)
		w.coming = nil
	}
}

// next returns a channel that the next signal closes.
func (w *changes) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.coming == nil {
		w.coming = make(chan struct{})
	}
	w.waiting.Store(true)
	return w.coming
}
