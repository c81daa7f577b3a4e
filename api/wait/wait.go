// Package wait waits for a duration or for the end of a context, whichever comes first.
package wait

import (
	"context"
	"time"
)

// For returns after d, or when ctx ends.
func For(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
