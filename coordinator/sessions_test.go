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

func TestEpoch_endsALittleAfterTheLeaderChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e epoch
		e.become("c1=a:1")
		ended := map[string]time.Time{}
		watch := func(name, addr string) func() bool {
			return e.onEnd(t.Context(), addr, func() { ended[name] = time.Now() })
		}
		watch("old", "a:1")
		stopped := watch("answered in time", "a:1")
		watch("another", "b:1")
		e.become("c1=a:1") // the same leader: nothing ends
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, ended)
		require.True(t, stopped())
		changed := time.Now()
		e.become("")
		watch("after the change", "a:1")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, map[string]time.Time{"old": changed.Add(deposedGrace)}, ended)
	})
}

func TestReadBarrier_joinsTheNextQuestionNotTheOneOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b readBarrier
		asked := uint64(0)
		answer := make(chan struct{})
		ask := func() (uint64, error) {
			asked++
			mine := asked
			<-answer
			return mine, nil
		}
		results := make(chan uint64, 10)
		read := func() {
			index, err := b.wait(t.Context(), ask)
			require.NoError(t, err)
			results <- index
		}
		go read()
		synctest.Wait()
		for range 3 {
			go read() // The first question was asked before these began.
		}
		synctest.Wait()
		answer <- struct{}{}
		require.EqualValues(t, 1, <-results)
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := b.wait(gone, ask)
		require.ErrorIs(t, err, context.Canceled)
		answer <- struct{}{}
		for range 3 {
			require.EqualValues(t, 2, <-results, "one question for all of them")
		}
		answer <- struct{}{} // that of the reader who went away
		b.wg.Wait()
	})
}
