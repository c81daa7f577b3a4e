package cluster_test

import (
	"encoding/json"
	"os"
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

func TestTop_showsWhatTheGPUsOfJobsDo(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /cluster", clitest.Answer(200, `{"nodes_total":1,"nodes_ready":1,"gpus_total":3,"gpus_allocated":2,"gpu_utilization":0.5,"jobs":{},"leader":"c1","coordinators":[]}`))
	g.On("GET /cluster/nodes", clitest.Answer(200, `{"nodes":[{"node_id":"n1","state":"READY","gpus":[
		{"index":0,"gpu_type":"H100","health":"HEALTHY","job_id":"job_1","memory_mb":81920,"memory_used_mb":40960,"utilization":0.5},
		{"index":1,"gpu_type":"H100","health":"HEALTHY","job_id":"job_1","memory_mb":81920,"memory_used_mb":20480,"utilization":1},
		{"index":2,"gpu_type":"H100","health":"HEALTHY","job_id":"","memory_mb":81920,"memory_used_mb":0,"utilization":0}]}]}`))
	g.On("GET /jobs", clitest.Answer(200, `{"jobs":[{"job_id":"job_1","name":"a","status":"TRAINING","nodes":["n1"],"resource_config":{"gpu_count":2}},
		{"job_id":"job_2","name":"b","status":"TRAINING","nodes":["n1"]}],"total_count":2}`))
	text := clitest.Squeeze(clitest.Done(t, "top"))
	require.Contains(t, text, "2 of 3 in use, 50% busy\n")
	require.Contains(t, text, "n1 READY 3xH100 0 50% 0", "the mean of its GPUs")
	require.Contains(t, text, "job_1 a TRAINING 2 75% 60.0 GiB of 160.0 GiB n1\n")
	require.Contains(t, text, "job_2 b TRAINING - - - n1")
}

// The sentence is that of the console: both are held to the same cases.
func TestTop_saysHowTheClusterIs(t *testing.T) {
	var cases []struct {
		Says     string          `json:"says"`
		Cluster  json.RawMessage `json:"cluster"`
		Replicas json.RawMessage `json:"replicas"`
	}
	text, err := os.ReadFile("testdata/sentences.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		g := clitest.NewGateway(t)
		g.On("GET /cluster", clitest.Answer(200, string(c.Cluster)))
		g.On("GET /cluster/nodes", clitest.Answer(200, `{"nodes":[]}`))
		g.On("GET /jobs", clitest.Answer(200, `{"jobs":[],"total_count":0}`))
		if c.Replicas != nil {
			g.On("GET /cluster/coordinators", clitest.Answer(200, string(c.Replicas)))
		}
		stdout, stderr, code := clitest.Run(t, "top")
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, c.Says+"\n\n")
	}
}

func TestTop_drawsTheGPUsAndTheQueue(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /cluster", clitest.Answer(200, `{"leader":"c1","gpus_total":12,"gpus_healthy":11,"jobs":{"QUEUED":9},"coordinators":[{"id":"c1","voter":true,"liveness":"alive"}]}`))
	g.On("GET /cluster/nodes", clitest.Answer(200, `{"nodes":[]}`))
	g.On("GET /jobs", clitest.Answer(200, `{"jobs":[],"total_count":0}`))
	g.On("GET /cluster/map", clitest.Answer(200, `{"node_ids":["n1","n2"],"states":["READY","DRAINING"],"gpu_types":["H100","H100"],"domains":["",""],"gpus":["mmmmoo.x","...."],"utilization":["--------","----"]}`))
	g.On("GET /queue", clitest.Answer(200, `{"depth":9,"jobs":[{"job_id":"job_9","name":"wide","queue":"default","position":1,"priority":5,"gpu_count":16,"gpu_type":"H100","reason":"needs 8 x H100 on each of 2 nodes"}]}`))
	stdout := clitest.Done(t, "top")
	require.Contains(t, stdout, "n1 ■■■■▣▣·✗\nn2 ···· draining\n")
	require.Contains(t, clitest.Squeeze(stdout), "1 job_9 wide default 5 16xH100 needs 8 x H100 on each of 2 nodes\nand 8 more")
}

func TestTop_simulatedGPUsHaveNoSensors(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /cluster", clitest.Answer(200, `{"gpus_total":2,"gpus_allocated":1,"gpu_utilization":0,"jobs":{},"coordinators":[]}`))
	node := func(use string) string {
		return `{"nodes":[{"node_id":"n1","state":"READY","gpus":[{"index":0,"gpu_type":"H100","health":"HEALTHY","simulated":true,"job_id":"job_1","memory_mb":81920,` + use + `}]}]}`
	}
	g.On("GET /cluster/nodes", clitest.Answer(200, node(`"memory_used_mb":0,"utilization":0`)))
	g.On("GET /jobs", clitest.Answer(200, `{"jobs":[{"job_id":"job_1","name":"a","status":"TRAINING","nodes":["n1"],"resource_config":{"gpu_count":1}}],"total_count":1}`))
	text := clitest.Squeeze(clitest.Done(t, "top"))
	require.Contains(t, text, "1 of 2 in use, simulated ones without sensors\n")
	require.Contains(t, text, "n1 READY 1xH100 (simulated) 0 - 0")
	require.Contains(t, text, "job_1 a TRAINING 1 - - n1")

	g.On("GET /cluster/nodes", clitest.Answer(200, node(`"memory_used_mb":40960,"utilization":0.75`)))
	text = clitest.Squeeze(clitest.Done(t, "top"))
	require.Contains(t, text, "n1 READY 1xH100 (simulated) 0 75% 0", "the file that simulates faults says so")
}
