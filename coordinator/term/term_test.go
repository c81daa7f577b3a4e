package term

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// state is a state that does not change.
type state struct{ *fsm.Machine }

func (state) Propose(context.Context, kernel.Command) (any, error) { return nil, errors.New("refused") }

// proofs completes each proof of leadership when the test allows it.
type proofs struct {
	term   uint64
	asked  int
	answer chan error
}

func (p *proofs) ReadIndex(ctx context.Context) (index, term uint64, err error) {
	p.asked++
	select {
	case err := <-p.answer:
		return 1, p.term, err
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
}

func (p *proofs) Timeout() time.Duration { return time.Second }

// figures adds up the renewals.
type figures struct{ direct, relayed int }

func (f *figures) Planned(time.Duration) {}
func (f *figures) Placed(int)            {}
func (f *figures) Renewed(direct, relayed int) {
	f.direct, f.relayed = f.direct+direct, f.relayed+relayed
}

func newTerm(p *proofs, f *figures) *Term {
	return New(Config{
		State: state{fsm.New()}, Raft: p, Figures: f, Applied: func(*fsm.View, []event.Event) {},
		Heartbeat: time.Second, UnreachableAfter: 5 * time.Second, Placements: 1, Log: slog.New(slog.DiscardHandler),
	}, p.term)
}

// Renewals that wait for a proof must not be confirmed by one of another term of the same coordinator: others may have led
// in between.
func TestVerify_anotherTermProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &proofs{term: 7, answer: make(chan error, 1)}
		term := newTerm(p, &figures{})
		listens := func() bool {
			listening, _ := term.liveness.Listening(time.Now())
			return listening
		}
		time.Sleep(time.Minute)
		require.False(t, listens())
		for _, other := range []uint64{6, 8} {
			p.term = other
			p.answer <- nil
			require.ErrorIs(t, term.verify(t.Context()), errOtherTerm)
			require.False(t, listens(), "it proves nothing")
		}
		p.term = 7
		p.answer <- nil
		require.NoError(t, term.verify(t.Context()))
		require.True(t, listens())
	})
}

func TestRenew_oneProofForAllThatCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := &proofs{term: 7, answer: make(chan error)}, &figures{}
		term := newTerm(p, f)
		first := term.liveness.Enter("n1", time.Now(), func() {})
		second := term.liveness.Enter("n2", time.Now(), func() {})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); term.renew(ctx) }()

		first.Beat(1, time.Now())
		term.sessions.AskRenewal()
		synctest.Wait()
		require.Equal(t, 1, p.asked)
		first.Beat(2, time.Now())
		second.Beat(7, time.Now())
		term.sessions.AskRenewal()
		p.answer <- nil
		synctest.Wait()
		require.EqualValues(t, 1, first.Renewed())
		require.Zero(t, second.Renewed())

		time.Sleep(liveness.RenewPace)
		synctest.Wait()
		require.Equal(t, 2, p.asked)
		p.answer <- errors.New("no quorum")
		synctest.Wait()
		require.EqualValues(t, 1, first.Renewed(), "without a proof nothing is renewed")
		time.Sleep(liveness.RenewPace)
		synctest.Wait()
		require.Equal(t, 3, p.asked, "it is tried again without being asked")
		p.answer <- nil
		synctest.Wait()
		require.EqualValues(t, 2, first.Renewed())
		require.EqualValues(t, 7, second.Renewed())
		require.Equal(t, 3, f.direct)
		cancel()
		<-done
	})
}
