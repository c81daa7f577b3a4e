package coordinator

import (
	"context"
	"sync"
	"time"
)

// attention knows whether this leader could have heard what was said to it. Silence counts against a node only for as long
// as this process ran, and as a majority of the voters went along with its reign.
type attention struct {
	mu sync.Mutex
	// awake is when the process last noticed that it runs; verified is when the newest proof of leadership began.
	awake, verified time.Time
}

// begin begins a reign, which was proven by the barrier that every reign begins with.
func (a *attention) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.awake = time.Now()
	a.verified = a.awake
}

func (a *attention) proven(began time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verified = later(a.verified, began)
}

// slept says whether the process stood still for longer than limit since anybody last asked.
func (a *attention) slept(limit time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	gap := now.Sub(a.awake)
	a.awake = now
	return gap > limit
}

// unproven is how long ago the newest proof of leadership began.
func (a *attention) unproven() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.verified)
}

// A reign that was not proven for so long, or for half of what makes a node unreachable if that is more, lacks a quorum.
const provenWithin = time.Second

// attend proves leadership again and again, and notices when the process stood still. It does nothing else, so that no work
// can be mistaken for a standstill.
func (s *server) attend(ctx context.Context, term uint64) {
	pace := max(10*time.Millisecond, s.config.Timers.UnreachableAfter/10)
	var proofs sync.WaitGroup
	defer proofs.Wait()
	underway := make(chan struct{}, 1)
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.listening()
		select {
		case underway <- struct{}{}:
			proofs.Go(func() {
				_ = s.verify(ctx, term) // What failed shows in the time since the last that did not.
				<-underway
			})
		default:
		}
	}
}

// listening says whether the nodes' silence means anything now. After a time in which it did not, everybody has one fresh
// period.
func (s *server) listening() bool {
	limit := s.config.Timers.UnreachableAfter / 2
	if s.attention.slept(limit) {
		s.log.Warn("this leader stood still: everybody has a fresh period")
		s.sessions.pardon()
	}
	if s.attention.unproven() > max(limit, provenWithin) {
		s.sessions.pardon()
		return false
	}
	return true
}
