// Package round lets concurrent callers share an expensive question.
//
// Guarantees: the question for a caller is asked after its call began. So a call joins the next round, never the one in
// flight. There are at most two rounds at a time, one of which has not started.
//
// Not guaranteed: that a round is skipped when all of its callers have given up.
package round

import (
	"context"
	"sync"
)

// Rounds runs the rounds of one question. The zero value is ready to use.
type Rounds[T any] struct {
	mu   sync.Mutex
	next *Round[T]
	busy bool
}

// Round is one round: the question is asked once for all callers that joined it.
type Round[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// Join joins the next round. If no goroutine runs the rounds, it calls run, which must start a goroutine that calls
// Run, or return false. Then Join returns false.
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

// Run asks the question for one round after the other until there is no next round.
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

// Wait waits for the answer of the round, and returns the cause of ctx if ctx ends first.
func (r *Round[T]) Wait(ctx context.Context) (answer T, err error) {
	select {
	case <-r.done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
}
