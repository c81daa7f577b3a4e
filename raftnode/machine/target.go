package machine

import (
	"context"
	"sync"
)

// target lets goroutines wait until an index is reached.
type target struct {
	mu      sync.Mutex
	reached uint64
	waiting map[uint64]*waiters
}

type waiters struct {
	count int
	ready chan struct{}
}

// reach records that all indices up to index are reached.
func (t *target) reach(index uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reached = max(t.reached, index)
	for at, w := range t.waiting {
		if at <= t.reached {
			close(w.ready)
			delete(t.waiting, at)
		}
	}
}

func (t *target) current() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reached
}

// wait waits until index is reached. It returns early with the cause of ctx when ctx ends, and with why when stopped is
// closed.
func (t *target) wait(ctx context.Context, index uint64, stopped <-chan struct{}, why error) error {
	t.mu.Lock()
	if index <= t.reached {
		t.mu.Unlock()
		return nil
	}
	w := t.waiting[index]
	if w == nil {
		w = &waiters{ready: make(chan struct{})}
		if t.waiting == nil {
			t.waiting = map[uint64]*waiters{}
		}
		t.waiting[index] = w
	}
	w.count++
	t.mu.Unlock()

	var err error
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-stopped:
		err = why
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.count--; w.count == 0 && t.waiting[index] == w {
		delete(t.waiting, index)
	}
	return err
}
