// Package owner gives a state to one goroutine, and the others a typed way to it.
//
// Contract: New returns an Owner, whose Run is the only goroutine that touches the state; a Door, through which others ask and
// tell; and Workers, which do what takes time. What is run on the owner's goroutine gets the state and nothing else: it has no
// Door, so it cannot wait for itself. It reaches a Door only by starting a worker.
//
// Guarantees: what one goroutine tells is run in its order. Ask returns true only if its function has run, and it does not run
// after Ask has returned. After Close nobody waits for the owner, and no worker begins.
//
// Not guaranteed: that a function which is run on the owner's goroutine returns soon. It must not wait for a disk or a process.
package owner

import (
	"context"
	"sync"
	"sync/atomic"
)

// Owner is the goroutine that owns a state.
type Owner[T any] struct {
	state T
	door  *Door[T]
}

// Door is the way to the state for other goroutines.
type Door[T any] struct {
	mail chan func(T)
	ctx  context.Context
}

// Workers are goroutines beside the owner.
type Workers[T any] struct {
	door  *Door[T]
	close context.CancelFunc

	mu    sync.Mutex
	over  bool
	group sync.WaitGroup
}

// New returns the owner of a state that begin returns, which is given the workers that do what it decides.
func New[T any](begin func(*Workers[T]) T) (*Owner[T], *Door[T], *Workers[T]) {
	ctx, cancel := context.WithCancel(context.Background())
	door := &Door[T]{mail: make(chan func(T)), ctx: ctx}
	workers := &Workers[T]{door: door, close: cancel}
	return &Owner[T]{state: begin(workers), door: door}, door, workers
}

// Run runs what others ask and tell, until ctx ends.
func (o *Owner[T]) Run(ctx context.Context) {
	for {
		select {
		case f := <-o.door.mail:
			f(o.state)
		case <-ctx.Done():
			return
		}
	}
}

// Context ends when the Workers are closed.
func (d *Door[T]) Context() context.Context { return d.ctx }

// Closed reports whether the Workers are closed.
func (d *Door[T]) Closed() bool { return d.ctx.Err() != nil }

// Tell has f run on the owner's goroutine, unless that is over. It returns when the owner has taken it.
func (d *Door[T]) Tell(f func(T)) {
	select {
	case d.mail <- f:
	case <-d.ctx.Done():
	}
}

// Poke has f run on the owner's goroutine if that has nothing else to do. It does not wait.
func (d *Door[T]) Poke(f func(T)) {
	select {
	case d.mail <- f:
	default:
	}
}

// Ask runs f on the owner's goroutine and waits for it. It returns false when f did not run, as that is over.
func (d *Door[T]) Ask(f func(T)) (ran bool) {
	var taken atomic.Bool // by the owner, or by who does not wait any more
	done := make(chan struct{})
	d.Tell(func(state T) {
		if taken.CompareAndSwap(false, true) {
			defer close(done)
			f(state)
		}
	})
	select {
	case <-done:
		return true
	case <-d.ctx.Done():
	}
	if taken.CompareAndSwap(false, true) {
		return false
	}
	<-done
	return true
}

// Go starts a worker. It is given the Door. None is started after Close: what was to be done is for the next process.
func (w *Workers[T]) Go(f func(*Door[T])) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.group.Go(func() { f(w.door) })
	}
}

// Later returns a function for another goroutine than the owner's to call, which is given the Door then.
func (w *Workers[T]) Later(f func(*Door[T])) func() { return func() { f(w.door) } }

// Close lets nobody wait for the owner any more, and waits for the end of all workers.
func (w *Workers[T]) Close() {
	w.close()
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.group.Wait()
}
