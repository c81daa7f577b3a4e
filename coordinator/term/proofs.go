package term

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/liveness"
)

// proofTime bounds one proof of leadership, on a machine that keeps up.
const proofTime = 2 * time.Second

// errOtherTerm is returned if leadership was proven in another term of this coordinator.
var errOtherTerm = errors.New("leading in another term")

// verify proves that this coordinator leads in this term, by a Raft round that begins after the call. Proofs of a later
// term do not count, because others may have led in between.
func (t *Term) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(proofTime, 2*t.config.Raft.Timeout()))
	defer cancel()
	began := time.Now()
	_, now, err := t.config.Raft.ReadIndex(ctx)
	switch {
	case err != nil:
		return err
	case now != t.number:
		return errOtherTerm
	}
	t.liveness.Proven(began)
	return nil
}

// prove proves leadership repeatedly, and notices when the process was suspended. It does nothing else, so that no work
// can be mistaken for a suspension.
func (t *Term) prove(ctx context.Context) {
	var proofs sync.WaitGroup
	defer proofs.Wait()
	inFlight := make(chan struct{}, 1)
	ticker := time.NewTicker(max(10*time.Millisecond, t.config.UnreachableAfter/10))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		t.listening()
		select {
		case inFlight <- struct{}{}:
			proofs.Go(func() {
				_ = t.verify(ctx) // A failure shows in the age of the newest proof.
				<-inFlight
			})
		default:
		}
	}
}

// listening reports whether the silence of nodes counts now.
func (t *Term) listening() bool {
	listening, stoodStill := t.liveness.Listening(time.Now())
	if stoodStill {
		t.log.Warn("this leader stood still: every node has a fresh period")
	}
	return listening
}

// renew runs a round of renewals whenever one is due, and asks for another one if it failed.
func (t *Term) renew(ctx context.Context) {
	pace := min(liveness.RenewPace, t.config.Heartbeat/5)
	var round *liveness.Round
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.sessions.RenewalDue():
		}
		began := time.Now()
		round = t.liveness.Round(round)
		if !round.Empty() {
			if err := t.verify(ctx); err == nil {
				t.config.Figures.Renewed(round.Confirm())
			} else if ctx.Err() == nil {
				t.log.Warn("renewals wait: this leader could not be verified", "error", err)
				t.sessions.AskRenewal()
			}
		}
		wait.For(ctx, pace-time.Since(began))
	}
}
