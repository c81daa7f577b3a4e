package metrics

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// Each event is counted once, however often the leader changes, even if a replica leads again.
func TestTerm_countOnceOverChangesOfTheLeader(t *testing.T) {
	machine := fsm.New()
	var (
		replicas   [2]*Metrics
		registries [2]*prometheus.Registry
		terms      [2]*Term // nil: this replica does not lead
	)
	for i := range replicas {
		registries[i] = prometheus.NewRegistry()
		replicas[i] = New(registries[i], machine, func() bool { return false })
		machine.OnApply(func(v *fsm.View, events []event.Event) {
			if terms[i] != nil {
				terms[i].Applied(v, events)
			}
		})
	}
	index := uint64(0)
	stale := func(n int) { // reports of a task without a lease
		for range n {
			index++
			command, err := kernel.Encode(level.Newest, jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{{Job: 1 << 20, Attempt: 1, Token: 1, Kind: jobverbs.ReportRunning}}})
			require.NoError(t, err)
			machine.Apply(index, kernel.Pack(level.Newest, time.Now(), [][]byte{command}))
		}
	}
	count := func(i int) float64 {
		families, err := registries[i].Gather()
		require.NoError(t, err)
		at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "mind_fencing_rejections_total" })
		return families[at].GetMetric()[0].GetCounter().GetValue()
	}
	stale(3) // before there is a leader, as in a replay of the log
	require.EqualValues(t, 3, machine.View().Fenced())
	terms[0] = replicas[0].Term(machine.View())
	stale(5)
	require.Equal(t, []float64{5, 0}, []float64{count(0), count(1)})
	terms[0] = nil
	terms[1] = replicas[1].Term(machine.View())
	stale(7)
	terms[1] = nil
	terms[0] = replicas[0].Term(machine.View())
	stale(11)
	require.Equal(t, []float64{16, 7}, []float64{count(0), count(1)})
}

// A leader whose clock is ahead moves the time of the log ahead, permanently. The metrics must show that.
func TestMetrics_theLogIsAheadOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine, reg := fsm.New(), prometheus.NewRegistry()
		New(reg, machine, func() bool { return true })
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
		command, err := kernel.Encode(level.Newest, access.TouchTokens{})
		require.NoError(t, err)
		machine.Apply(1, kernel.Pack(level.Newest, time.Now(), [][]byte{command}))
		require.Zero(t, ahead())
		machine.Apply(2, kernel.Pack(level.Newest, time.Now().Add(time.Hour), [][]byte{command}))
		machine.Apply(3, kernel.Pack(level.Newest, time.Now(), [][]byte{command}))
		require.InDelta(t, 3600, ahead(), 0.001)
		time.Sleep(50 * time.Minute)
		require.InDelta(t, 600, ahead(), 0.001)
		time.Sleep(11 * time.Minute)
		require.Zero(t, ahead())
	})
}
