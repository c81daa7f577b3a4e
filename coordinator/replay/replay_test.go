package replay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/raftnode/replay"
)

// empty returns a log without commands.
func empty(t *testing.T) func() replay.Source {
	log := raft.NewInmemStore()
	require.NoError(t, log.StoreLog(&raft.Log{Index: 1, Term: 1, Type: raft.LogNoop}))
	return func() replay.Source {
		return replay.Source{Log: log, Snapshots: raft.NewInmemSnapshotStore(), Applied: 1}
	}
}

// One state is rebuilt at a time. Calls that wait too long are refused.
func TestReplays_oneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New("c1", empty(t))
		open, done := make(chan struct{}), make(chan error)
		look := func(ctx context.Context, see func(*Past) error) { done <- r.See(ctx, Moment{Index: 1}, 1, see) }
		go look(t.Context(), func(*Past) error { <-open; return nil })
		synctest.Wait()

		second := make(chan struct{}, 1)
		go look(t.Context(), func(*Past) error { second <- struct{}{}; return nil })
		err := <-done
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.ErrorContains(t, err, "c1 replays its log for others at the moment")
		require.Empty(t, second)

		ctx, leave := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		go look(ctx, func(*Past) error { second <- struct{}{}; return nil })
		synctest.Wait()
		leave(enough)
		require.ErrorIs(t, <-done, enough)
		require.Empty(t, second)

		go look(t.Context(), func(*Past) error { second <- struct{}{}; return nil })
		time.Sleep(time.Second)
		close(open)
		require.NoError(t, <-done)
		require.NoError(t, <-done, "it waited for less than its patience")
		require.Len(t, second, 1)
	})
}

// A moment may be refused, and the callback may fail: the next call gets its turn all the same.
func TestReplays_aFailureEndsTheTurn(t *testing.T) {
	r := New("c1", empty(t))
	broken := errors.New("broken")
	require.ErrorIs(t, r.See(t.Context(), Moment{Index: 1}, 1, func(*Past) error { return broken }), broken)
	err := r.See(t.Context(), Moment{Index: 2}, 1, func(*Past) error { return nil })
	require.ErrorContains(t, err, "entry 2 is not written yet: the last one is 1")
	require.NoError(t, r.See(t.Context(), Moment{Index: 1}, 1, func(p *Past) error {
		require.EqualValues(t, 1, p.Index)
		require.Nil(t, p.Last)
		return nil
	}))
}
