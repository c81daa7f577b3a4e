package round

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestRounds_aCallIsAnsweredByAQuestionOfAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Rounds[int]
		asked, answer := 0, make(chan error)
		ask := func() (int, error) { asked++; n := asked; return n, <-answer }
		start := func() bool { go r.Run(ask); return true }
		join := func() *Round[int] {
			next, ok := r.Join(start)
			require.True(t, ok)
			return next
		}
		first := join()
		synctest.Wait() // until the question is asked
		second, third := join(), join()
		require.NotSame(t, first, second, "it may have been asked before the call")
		require.Same(t, second, third)
		require.Equal(t, 1, asked)
		answer <- nil
		n, err := first.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		gone, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("enough"))
		_, err = second.Wait(gone)
		require.EqualError(t, err, "enough")
		answer <- errors.New("no leader")
		_, err = third.Wait(t.Context())
		require.EqualError(t, err, "no leader")
		synctest.Wait()
		fourth := join() // starts a goroutine again
		answer <- nil
		n, err = fourth.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, n)
	})
}

func TestRounds_whoCannotRunCannotBeJoined(t *testing.T) {
	var r Rounds[int]
	_, ok := r.Join(func() bool { return false })
	require.False(t, ok)
	require.Nil(t, r.next)
}
