package coordinator

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// figures returns some metrics of the running coordinators, each summed over all series.
func (c *cluster) figures(names ...string) map[string]float64 {
	c.t.Helper()
	sums := map[string]float64{}
	for _, id := range c.running() {
		_, body := c.page(id, "/metrics")
		for line := range strings.Lines(body) {
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
