package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestTop_showsTheClusterOnceWhenItIsNotATerminal(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /cluster", clitest.Answer(200, `{"nodes_total":2,"nodes_ready":1,"gpus_total":16,"gpus_allocated":3,"gpu_allocation":0.1875,"gpu_utilization":0.634,"jobs":{"RUNNING":2,"FAILED":1,"LOST":1,"SUCCEEDED":4,"CANCELED":1,"HELD":3,"PAUSED":0},"leader":"c2","coordinators":[{"id":"c1","liveness":"dead"},{"id":"c2","leader":true,"liveness":"alive"}]}`))
	g.On("GET /cluster/nodes", clitest.Answer(200, `{"nodes":[{"node_id":"n1","state":"READY","gpus":[{"gpu_type":"H100","health":"HEALTHY","simulated":true},{"gpu_type":"H100","health":"QUARANTINED","simulated":true}]}]}`))
	g.On("GET /jobs", clitest.Answer(200, `{"jobs":[],"total_count":0}`))
	stdout, stderr, code := clitest.Run(t, "top")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "c1 (dead) c2*")
	require.Contains(t, stdout, "1 of 2 ready")
	require.Contains(t, stdout, "3 of 16 in use, 63% busy\n")
	require.Contains(t, stdout, "1 cancelled, 4 completed, 2 failed, 3 held, 2 running\n")
	require.Contains(t, stdout, "2xH100 (simulated) (1 unhealthy)")
}
