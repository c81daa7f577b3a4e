// Package wait waits for a duration or for the end of a context, whichever comes first, and computes the pauses between
// tries.
//
// Not guaranteed: that pauses differ between waiters. Callers add randomness with Spread.
package wait

import (
	"context"
	"time"
)

// For returns after d, or when ctx ends if that is earlier. It returns at once if d is not positive.
func For(ctx context.Context, d time.Duration) {
	if d <= 0 {
		// A timer that is due when it is made crashes the race detector in virtual time, now and then.
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
