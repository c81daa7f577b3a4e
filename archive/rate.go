package archive

import (
	"context"
	"sync"
	"time"
)

// Rate spreads bytes over time. The zero value has no limit.
type Rate struct {
	// PerSecond is the limit in bytes; 0: none.
	PerSecond int64

	mu   sync.Mutex
	free time.Time
}

// Wait waits until a number of bytes may be sent.
func (r *Rate) Wait(ctx context.Context, bytes int) error {
	if r.PerSecond <= 0 {
		return ctx.Err()
	}
	r.mu.Lock()
	now := time.Now()
	if r.free.Before(now) {
		r.free = now
	}
	at := r.free
	r.free = at.Add(time.Duration(float64(bytes) / float64(r.PerSecond) * float64(time.Second)))
	r.mu.Unlock()
	timer := time.NewTimer(at.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
