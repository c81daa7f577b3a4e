package replica

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKnownLeader_endsALittleAfterTheLeaderChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e knownLeader
		e.set("c1=a:1")
		ended := map[string]time.Time{}
		watch := func(name, addr string) func() bool {
			return e.onEnd(t.Context(), addr, func() { ended[name] = time.Now() })
		}
		watch("old", "a:1")
		stopped := watch("answered in time", "a:1")
		watch("another", "b:1")
		e.set("c1=a:1") // the same leader: nothing ends
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, ended)
		require.True(t, stopped())
		changed := time.Now()
		e.set("")
		watch("after the change", "a:1")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, map[string]time.Time{"old": changed.Add(deposedGrace)}, ended)
	})
}

func TestRounds_aReadJoinsTheNextRoundNotTheOneInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b rounds
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
			index, err := b.join(t.Context(), ask)
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
		_, err := b.join(gone, ask)
		require.ErrorIs(t, err, context.Canceled)
		answer <- struct{}{}
		for range 3 {
			require.EqualValues(t, 2, <-results, "one question for all of them")
		}
		answer <- struct{}{} // that of the reader who went away
		b.wg.Wait()
	})
}
