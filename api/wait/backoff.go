package wait

import (
	"math/rand/v2"
	"time"
)

// Spread returns a random duration between d/2 and d, so that waiters that began together do not all return together.
func Spread(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Backoff is a series of pauses that double from First to Longest. The other fields need no initialization.
type Backoff struct {
	First, Longest time.Duration
	next           time.Duration
}

// Next returns the next pause.
func (b *Backoff) Next() time.Duration {
	now := max(b.First, b.next)
	b.next = min(2*now, b.Longest)
	return now
}

// Reset starts the series again with First.
func (b *Backoff) Reset() { b.next = 0 }
