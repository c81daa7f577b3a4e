package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestControl_goesOnAfterARefusal(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /jobs/a/cancel", clitest.Answer(200, `{"job_id":"a","status":"CANCELLED"}`))
	g.On("POST /jobs/b/cancel", clitest.Refuse(409, "FAILED_PRECONDITION", "it has ended"))
	g.On("POST /jobs/c/cancel", clitest.Answer(200, `{"job_id":"c","status":"CANCELLED"}`))
	stdout, stderr, code := clitest.Run(t, "cancel", "--reason", "r", "a", "b", "c")
	require.Equal(t, 1, code)
	require.Equal(t, "a CANCELLED\nc CANCELLED\n", stdout)
	require.Equal(t, "mind: b: it has ended\n", stderr)
	require.JSONEq(t, `{"reason":"r"}`, g.Bodies[0])

	g.On("POST /jobs/a/retry", clitest.Answer(200, `{"job_id":"a","status":"PENDING"}`))
	_, stderr, code = clitest.Run(t, "retry", "--gpu-type", "H200", "--memory", "1Gi", "--checkpoint", "ckpt_1", "a")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"checkpoint_id":"ckpt_1","modify_resources":{"gpu_type":"H200","memory_mb":1024}}`, g.Bodies[len(g.Bodies)-1])
}

func TestControl_answersOnceForSeveralJobs(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /jobs/a/cancel", clitest.Answer(200, `{"job_id":"a"}`))
	g.On("POST /jobs/c/cancel", clitest.Answer(200, `{"job_id":"c"}`))
	stdout, _, code := clitest.Run(t, "cancel", "a", "b", "c", "-o", "json")
	require.Equal(t, 1, code)
	require.JSONEq(t, `{"jobs":[{"job_id":"a"},{"job_id":"c"}]}`, stdout)
	stdout, _, code = clitest.Run(t, "cancel", "a", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"job_id":"a"}`, stdout)
	stdout, _, _ = clitest.Run(t, "cancel", "x", "y", "-o", "json")
	require.JSONEq(t, `{"jobs":[]}`, stdout)
}
