package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestQueue_saysWhenJobsStart(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /queue", clitest.Answer(200, `{"depth":3,"held":2,"jobs":[
		{"job_id":"job_1","name":"a","queue":"default","position":1,"priority":5,"gpu_count":2,"gpu_type":"H100","reason":"full","estimated_wait_seconds":725.4},
		{"job_id":"job_2","name":"b","queue":"default","position":4,"priority":5,"gpu_count":2,"reason":"full","estimated_wait_seconds":null}]}`))
	stdout, stderr, code := clitest.Run(t, "queue")
	require.Zero(t, code, stderr)
	require.Contains(t, clitest.Squeeze(stdout), "POS JOB NAME QUEUE PRIO GPUS AGE STARTS IN REASON\n1 job_1 a default 5 2xH100 ~12m05s full\n4 job_2 b default 5 2 full")
	require.Equal(t, "3 jobs are waiting in total\nheld back: 2 (`mind jobs --status QUEUED` says until when)\n", stderr)

	at := time.Now().Add(50*time.Hour + 30*time.Minute).UTC().Format(time.RFC3339)
	g.On("GET /jobs/job_1", clitest.Answer(200, fmt.Sprintf(`{"job_id":"job_1","name":"a","status":"QUEUED","queue_position":1,"queue":"default","estimated_start_at":%q}`, at)))
	stdout, _, code = clitest.Run(t, "job", "job_1")
	require.Zero(t, code)
	require.Regexp(t, `starts +in 2d at the earliest, by an estimate from the jobs of your tenant`, stdout)
}

func TestQueuesPut_saysItsLimitsAndRefusesNoWeight(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("PUT /queues/batch", clitest.Answer(200, `{"name":"batch","share_percent":50,"max_gpus":0,"max_gpus_by_type":{"H100":16}}`))
	stdout, stderr, code := clitest.Run(t, "queues", "put", "batch", "--max-gpus-by-type", "H100=16")
	require.Zero(t, code, stderr)
	require.Equal(t, "the jobs of queue batch may hold any number of GPUs, by type H100=16, together; 50.0% of the cluster is its due\n", stdout)
	require.JSONEq(t, `{"max_gpus":0,"weight":1,"parent":"","max_gpus_by_type":{"H100":16}}`, g.Bodies[0])

	for says, args := range map[string][]string{
		"--weight 0: it must be 1 or more": {"--weight", "0"},
		"H100 is given twice":              {"--max-gpus-by-type", "H100=8,H100=9"},
		`"H100" is not of the form`:        {"--max-gpus-by-type", "H100"},
	} {
		_, stderr, code := clitest.Run(t, append([]string{"queues", "put", "batch"}, args...)...)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, says)
	}
	_, stderr, code = clitest.Run(t, "quota", "set", "acme", "--max-gpus-by-type", "H100=8", "--max-gpus-by-type", "H100=9")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "H100 is given twice")
	require.Len(t, g.Bodies, 1, "nothing of this is sent")
}
