package rest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChanges_await(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, over := make(chan struct{}), make(chan struct{})
		close(over)
		await := func(c changes, pause time.Duration) (waited, next time.Duration) {
			begin := time.Now()
			next = c.await(t.Context(), pause)
			return time.Since(begin), next
		}
		for _, one := range []struct {
			c                   changes
			pause, waited, next time.Duration
		}{
			{changes{}, 400 * time.Millisecond, 400 * time.Millisecond, 500 * time.Millisecond},
			{changes{}, pollPauseMax, pollPauseMax, pollPauseMax},
			{changes{ended: over}, toldPauseMax, pollPauseMax, pollPauseMax},
			{changes{ended: open}, toldPauseMax, toldPauseMax, toldPauseMax},
		} {
			waited, next := await(one.c, one.pause)
			require.Equal(t, []time.Duration{one.waited, one.next}, []time.Duration{waited, next})
		}
		told := changes{ended: open, some: make(chan struct{}, 1)}
		told.some <- struct{}{}
		waited, _ := await(told, toldPauseMax)
		require.Equal(t, toldPause, waited, "a change is read at once, and many changes are read together")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		told.await(ctx, toldPauseMax)
		require.Zero(t, time.Since(begin))
	})
}
