package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
)

// A leader whose clock is ahead takes the time of the log with it, and it does not come back: that has to be seen.
func TestMetrics_theLogIsAheadOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine, reg := fsm.New(), prometheus.NewRegistry()
		newMetrics(reg, machine, func() bool { return true })
		ahead := func() float64 {
			families, err := reg.Gather()
			require.NoError(t, err)
			for _, f := range families {
				if f.GetName() == "mind_log_time_ahead_seconds" {
					return f.GetMetric()[0].GetGauge().GetValue()
				}
			}
			t.Fatal("it is not told")
			return 0
		}
		require.Zero(t, ahead())
		command, err := fsm.Encode(fsm.TouchTokens{})
		require.NoError(t, err)
		machine.Apply(1, fsm.Pack(time.Now(), [][]byte{command}))
		require.Zero(t, ahead())
		machine.Apply(2, fsm.Pack(time.Now().Add(time.Hour), [][]byte{command}))
		machine.Apply(3, fsm.Pack(time.Now(), [][]byte{command}))
		require.InDelta(t, 3600, ahead(), 0.001)
		time.Sleep(50 * time.Minute)
		require.InDelta(t, 600, ahead(), 0.001)
		time.Sleep(11 * time.Minute)
		require.Zero(t, ahead())
	})
}
