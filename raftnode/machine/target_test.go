package machine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestTarget_wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r target
		stopped, errStopped := make(chan struct{}), errors.New("stopped")
		wait := func(ctx context.Context, index uint64) chan error {
			done := make(chan error, 1)
			go func() { done <- r.wait(ctx, index, stopped, errStopped) }()
			synctest.Wait()
			return done
		}
		r.reach(3)
		require.NoError(t, <-wait(t.Context(), 3))
		four, six := wait(t.Context(), 4), wait(t.Context(), 6)
		gone, leave := context.WithCancelCause(t.Context())
		five := wait(gone, 5)
		r.reach(4)
		require.NoError(t, <-four)
		leave(errors.New("enough"))
		require.EqualError(t, <-five, "enough")
		require.Len(t, r.waiting, 1, "who has gone is still waited for")
		close(stopped)
		require.ErrorIs(t, <-six, errStopped)
		require.Empty(t, r.waiting)
		require.Equal(t, uint64(4), r.current())
	})
}

func TestTarget_wakesThoseWhoAreReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var target target
		var mu sync.Mutex
		woken := map[uint64]int{}
		for i := range uint64(30) {
			go func() {
				index := i/3 + 1 // three goroutines wait for each index
				if target.wait(t.Context(), index, nil, nil) == nil {
					mu.Lock()
					woken[index]++
					mu.Unlock()
				}
			}()
		}
		synctest.Wait()
		require.Empty(t, woken)
		for _, to := range []uint64{0, 1, 4, 3, 10} {
			target.reach(to)
			synctest.Wait()
			require.Len(t, woken, int(target.current()))
		}
		for index, count := range woken {
			require.Equal(t, 3, count, "index %d", index)
		}
		require.Empty(t, target.waiting)
		stopped, why := make(chan struct{}), errors.New("stopped")
		close(stopped)
		require.ErrorIs(t, target.wait(t.Context(), 11, stopped, why), why)
	})
}
