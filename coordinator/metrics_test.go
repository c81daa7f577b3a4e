package coordinator

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// figures returns some metrics of the running coordinators, each summed over all series; a name with labels is one series.
func (c *cluster) figures(names ...string) map[string]float64 {
	c.t.Helper()
	sums := map[string]float64{}
	for _, id := range c.running() {
		_, body := c.page(id, "/metrics")
		for line := range strings.Lines(body) {
			line = strings.TrimSpace(line)
			series := line[:max(0, strings.LastIndexByte(line, ' '))]
			for _, name := range []string{series, line[:max(0, strings.IndexAny(line, "{ "))]} {
				if slices.Contains(names, name) {
					value, err := strconv.ParseFloat(line[len(series)+1:], 64)
					require.NoError(c.t, err)
					sums[name] += value
					break
				}
			}
		}
	}
	return sums
}

// The sum over all coordinators counts each GPU, job, node and lease once, also after the leader has changed.
func TestMetrics_theStateIsToldByTheLeaderAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
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
	})
}

// Steps of executions are counted once each, by the coordinator that led, and what they leave is told by the leader.
func TestMetrics_executions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.leader()
		c.core(at, "m", `[{"kind":"checkpoint","id":"ask","prompt":"?","options":["yes","no"]},
			{"kind":"if","id":"b","cases":[{"when":"ask.resolution == 'no'","body":[{"kind":"rigid","id":"f","statements":[{"kind":"fail","code":"NO","message":"no"}]}]}]}]`)
		for range 3 {
			c.invoke(at, "m", nil, 5)
		}
		c.lead(c.follower())
		at = c.leader()
		for i, answer := range []string{"yes", "no"} {
			_, err := c.cores(at).ResolveDecision(c.ctx("t1", ""), &v1.ResolveDecisionRequest{CheckpointId: c.checkpoints(at)[0].GetId(), Resolution: answer})
			require.NoError(t, err, i)
		}
		want := map[string]float64{
			`mind_executions{status="waiting"}`: 1, `mind_executions{status="completed"}`: 1, `mind_executions{status="failed"}`: 1, `mind_executions{status="running"}`: 0,
			`mind_decisions{status="pending"}`: 1, `mind_decisions{status="resolved"}`: 2,
			`mind_advances_total{outcome="goes_on"}`: 3, `mind_advances_total{outcome="completed"}`: 1, `mind_advances_total{outcome="failed"}`: 1,
		}
		c.eventually("the figures of executions are right", func() bool {
			return maps.Equal(want, c.figures(slices.Collect(maps.Keys(want))...))
		})
	})
}
