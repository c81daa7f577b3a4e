// Package backoff computes how long to wait between tries. Package api/wait does the waiting.
//
// Not guaranteed: jitter. Callers add it with Spread.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Spread returns a random duration between d/2 and d, so that many waiters do not come back together.
func Spread(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Pauses double from First to Longest. The zero value of the other fields is ready for use.
type Pauses struct {
	First, Longest time.Duration
	next           time.Duration
}

// Next returns how long to wait now.
func (p *Pauses) Next() time.Duration {
	now := max(p.First, p.next)
	p.next = min(2*now, p.Longest)
	return now
}

// Reset starts again with First.
func (p *Pauses) Reset() { p.next = 0 }
