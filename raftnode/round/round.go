// Package round lets callers share an answer that is expensive to get.
//
// Guarantees: the question that answers a call was asked after the call began. So a call joins the round that has not started,
// never the one in flight, and there are at most two rounds at a time, one of them waiting.
//
// Not guaranteed: that a round is asked when all its callers have gone.
package round

import (
	"context"
	"sync"
)

// Rounds share answers of a kind. The zero value is ready.
type Rounds[T any] struct {
	mu   sync.Mutex
	next *Round[T]
	busy bool
}

// Round is one question.
type Round[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// Join joins the next round. run is called when somebody has to run the rounds: it calls Run on a goroutine, or returns false,
// and then nobody can join.
func (r *Rounds[T]) Join(run func() bool) (next *Round[T], ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &Round[T]{done: make(chan struct{})}
	}
	next = r.next
	if !r.busy {
		if !run() {
			r.next = nil
			return nil, false
		}
		r.busy = true
	}
	return next, true
}

// Run asks for one round after the other until nobody waits.
func (r *Rounds[T]) Run(ask func() (T, error)) {
	for {
		r.mu.Lock()
		round := r.next
		r.next = nil
		r.busy = round != nil
		r.mu.Unlock()
		if round == nil {
			return
		}
		round.answer, round.err = ask()
		close(round.done)
	}
}

// Wait returns the answer of the round, or the cause of ctx before that.
func (r *Round[T]) Wait(ctx context.Context) (answer T, err error) {
	select {
	case <-r.done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
}
