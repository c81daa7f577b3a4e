package replica

import (
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
			return e.afterEnd(t.Context(), addr, func() { ended[name] = time.Now() })
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
