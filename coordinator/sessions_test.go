package coordinator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSessionTable_theNewerSessionWins(t *testing.T) {
	var table sessionTable
	_, _, err := table.enter(t.Context(), "n1")
	require.ErrorIs(t, err, errNotLeading)
	table.open(t.Context(), 7)
	first, term, err := table.enter(t.Context(), "n1")
	require.NoError(t, err)
	require.EqualValues(t, 7, term)
	second, _, err := table.enter(t.Context(), "n1")
	require.NoError(t, err)
	require.ErrorIs(t, context.Cause(first.ctx), errReplaced)
	table.leave(first)
	table.wake([]string{"n1", "n2"})
	require.Len(t, second.wake, 1, "the end of the older one does not touch the newer")
	require.True(t, second.dirty.Load())
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		table.close()
	}()
	<-second.ctx.Done()
	require.ErrorIs(t, context.Cause(second.ctx), errNotLeading)
	table.leave(second)
	<-closed
	_, _, ok := table.lastSeen("n1")
	require.False(t, ok)
}

func TestSessionTable_everybodyHasOneFreshPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table sessionTable
		time.Sleep(time.Hour)
		table.open(t.Context(), 1)
		opened := time.Now()
		at, inSession, ok := table.lastSeen("never heard of")
		require.True(t, ok)
		require.False(t, inSession)
		require.Equal(t, opened, at)

		s, _, err := table.enter(t.Context(), "n1")
		require.NoError(t, err)
		time.Sleep(time.Second)
		heard := time.Now()
		s.hear()
		time.Sleep(time.Second)
		at, inSession, _ = table.lastSeen("n1")
		require.True(t, inSession)
		require.True(t, heard.Equal(at))
		table.leave(s)
		at, inSession, _ = table.lastSeen("n1")
		require.False(t, inSession)
		require.True(t, heard.Equal(at), "kept beyond the session")

		time.Sleep(time.Minute)
		table.pardon()
		at, _, _ = table.lastSeen("n1")
		require.True(t, time.Now().Equal(at))
	})
}
