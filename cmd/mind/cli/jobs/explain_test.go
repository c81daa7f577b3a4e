package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestExplain_saysTheStatus(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1/explain", clitest.Answer(200, `{"job_id":"job_1","state":"RUNNING","status":"TRAINING","reason":"all is well","queue_position":null,"details":["rank 0: x"]}`))
	stdout, stderr, code := clitest.Run(t, "explain", "job_1")
	require.Zero(t, code, stderr)
	require.Equal(t, "job_1 is TRAINING\nall is well\n- rank 0: x\n", stdout)
}
