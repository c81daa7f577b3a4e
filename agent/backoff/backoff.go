// Package backoff waits: once, or longer from try to try.
//
// Guarantees: no wait outlives its context, and none leaves a timer or a goroutine behind.
//
// Not guaranteed: jitter. Who needs it says so: Spread.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d. It returns false, at once, when ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Spread is a random time between half of d and d: many that wait for the same should not come back together.
func Spread(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Pauses double from First to Longest. The zero value of the other fields is ready for use.
type Pauses struct {
	First, Longest time.Duration
	next           time.Duration
}

// Next is how long to wait now.
func (p *Pauses) Next() time.Duration {
	now := max(p.First, p.next)
	p.next = min(2*now, p.Longest)
	return now
}

// Reset begins again with First.
func (p *Pauses) Reset() { p.next = 0 }
