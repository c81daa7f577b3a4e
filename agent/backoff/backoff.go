// Package backoff says how long to wait between tries. The waiting itself is for package api/wait.
//
// Not guaranteed: jitter. Who needs it says so: Spread.
package backoff

import (
	"math/rand/v2"
	"time"
)

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
