// Package owner gives a state to one goroutine, and gives other goroutines typed access to it.
//
// Contract: New returns an Owner, whose Run is the only goroutine that accesses the state; a Door, through which other
// goroutines send functions to it; and Workers, which do slow work. A function on the owner's goroutine gets the state and
// nothing else: it has no Door, so it cannot wait for itself. It can reach a Door only by starting a worker.
//
// Guarantees: functions that one goroutine sends run in its order. Ask returns true only if its function has run, and the
// function does not run after Ask has returned. After Close nothing waits for the owner, and no worker starts.
//
// Not guaranteed: that a function on the owner's goroutine returns soon. It must not wait for a disk or a process.
package owner

import (
	"context"
	"sync"
	"sync/atomic"
)

// Owner owns a state. Its Run is the goroutine that accesses it.
type Owner[T any] struct {
	state T
	door  *Door[T]
}

// Door gives other goroutines access to the state.
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

// New returns the owner of the state that begin returns. begin gets the workers that carry out the state's decisions.
func New[T any](begin func(*Workers[T]) T) (*Owner[T], *Door[T], *Workers[T]) {
	ctx, cancel := context.WithCancel(context.Background())
	door := &Door[T]{mail: make(chan func(T)), ctx: ctx}
	workers := &Workers[T]{door: door, close: cancel}
	return &Owner[T]{state: begin(workers), door: door}, door, workers
}

// Run runs the functions of other goroutines until ctx ends.
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

// Context returns a context that ends when the Workers are closed.
func (d *Door[T]) Context() context.Context { return d.ctx }

// Closed reports whether the Workers are closed.
func (d *Door[T]) Closed() bool { return d.ctx.Err() != nil }

// Tell runs f on the owner's goroutine, unless that has ended. It returns when the owner has accepted f.
func (d *Door[T]) Tell(f func(T)) {
	select {
	case d.mail <- f:
	case <-d.ctx.Done():
	}
}

// Poke runs f on the owner's goroutine if that is idle. It does not wait.
func (d *Door[T]) Poke(f func(T)) {
	select {
	case d.mail <- f:
	default:
	}
}

// Ask runs f on the owner's goroutine and waits for it. It returns false if f did not run because the owner has ended.
func (d *Door[T]) Ask(f func(T)) (ran bool) {
	var taken atomic.Bool // set by the owner, or by a caller that stopped waiting
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

// Go starts a worker, which gets the Door. None is started after Close: the work is left to the next process.
func (w *Workers[T]) Go(f func(*Door[T])) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.group.Go(func() { f(w.door) })
	}
}

// Later returns a function for a goroutine other than the owner's, which then gets the Door.
func (w *Workers[T]) Later(f func(*Door[T])) func() { return func() { f(w.door) } }

// Close ends all waiting for the owner, and waits for the end of all workers.
func (w *Workers[T]) Close() {
	w.close()
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.group.Wait()
}
