package coordinator

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// figures reads what the running coordinators say of some metrics: all series of each, added up.
func (c *cluster) figures(names ...string) map[string]float64 {
	c.t.Helper()
	sums := map[string]float64{}
	for _, id := range c.running() {
		resp, err := http.Get("http://" + c.members[id].config.HTTPAddr + "/metrics")
		require.NoError(c.t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(c.t, err)
		require.NoError(c.t, resp.Body.Close())
		for line := range strings.Lines(string(body)) {
			line = strings.TrimSpace(line)
			name := line[:max(0, strings.IndexAny(line, "{ "))]
			if slices.Contains(names, name) {
				value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
				require.NoError(c.t, err)
				sums[name] += value
			}
		}
	}
	return sums
}

// Whoever adds up what all coordinators say counts each GPU, job, node and lease once, also after the leader has changed.
func TestMetrics_theStateIsToldByTheLeaderAlone(t *testing.T) {
	c := startCluster(t, 3, nil)
	c.agent("n1", 4)
	c.agent("n2", 4)
	at := c.leader()
	c.awaitStatus(at, c.submit(at, sleeper(2, 1)), v1.JobStatus_TRAINING)
	c.submit(at, patient(sleeper(64, 0)))
	want := map[string]float64{"mind_gpus": 8, "mind_jobs": 2, "mind_nodes": 2, "mind_leases": 1, "mind_raft_leader": 1}
	asked := []string{"mind_gpus", "mind_jobs", "mind_nodes", "mind_leases", "mind_raft_leader"}
	equal := func() bool {
		got := c.figures(asked...)
		for name, value := range want {
			if got[name] != value {
				return false
			}
		}
		return true
	}
	c.eventually("the sums are not what there is", equal)
	for range 2 {
		next := c.follower()
		c.lead(next)
		c.eventually("the sums are not what there is after a change of the leader", equal)
	}
	c.kill(c.leader())
	want["mind_nodes"] = 2
	c.eventually("the sums are not what there is after the leader died", equal)
}

// What is counted is counted once, however often the leader changes, and by a replica that leads again too.
func TestTotals_countOnceOverChangesOfTheLeader(t *testing.T) {
	machine := fsm.New()
	var (
		replicas   [2]*totals
		registries [2]*prometheus.Registry
	)
	for i := range replicas {
		replicas[i], registries[i] = &totals{}, prometheus.NewRegistry()
		replicas[i].register(registries[i])
		machine.OnApply(func(v *fsm.View, _ []fsm.Event) { replicas[i].observe(v) })
	}
	index := uint64(0)
	stale := func(n int) { // reports of a task that nobody has a lease for
		for range n {
			index++
			command, err := fsm.Encode(fsm.ReportTasks{Node: "n1", Reports: []fsm.TaskReport{{Job: 1 << 20, Attempt: 1, Token: 1, Kind: fsm.ReportRunning}}})
			require.NoError(t, err)
			machine.Apply(index, fsm.Pack(time.Now(), [][]byte{command}))
		}
	}
	count := func(i int) float64 {
		families, err := registries[i].Gather()
		require.NoError(t, err)
		return families[0].GetMetric()[0].GetCounter().GetValue() // mind_fencing_rejections_total is the first by name
	}
	stale(3) // before anybody leads, as when a log is replayed
	require.EqualValues(t, 3, machine.View().Fenced())
	replicas[0].begin(machine.View())
	stale(5)
	require.Equal(t, []float64{5, 0}, []float64{count(0), count(1)})
	replicas[0].end()
	replicas[1].begin(machine.View())
	stale(7)
	replicas[1].end()
	replicas[0].begin(machine.View())
	stale(11)
	require.Equal(t, []float64{16, 7}, []float64{count(0), count(1)})
}

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
