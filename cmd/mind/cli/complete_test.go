package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

func TestComplete_offersJobsAndNodes(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs", clitest.Answer(200, `{"jobs":[{"job_id":"job_1","name":"n","status":"QUEUED"}]}`))
	g.On("GET /cluster/nodes", clitest.Answer(200, `{"nodes":[{"node_id":"n1","state":"READY"}]}`))
	stdout, _, _ := clitest.Run(t, "__complete", "cancel", "")
	require.Contains(t, stdout, "job_1\tn QUEUED\n")
	stdout, _, _ = clitest.Run(t, "__complete", "drain", "")
	require.Contains(t, stdout, "n1\tREADY\n")
}

func TestComplete_offersQueuesEvaluationsTokensContexts(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /queues", clitest.Answer(200, `{"queues":[{"name":"vision","weight":1}]}`))
	g.On("GET /evaluations", clitest.Answer(200, `{"evaluations":[{"evaluation_id":"eval_1","status":"QUEUED"}]}`))
	g.On("GET /tokens", clitest.Answer(200, `{"tokens":[{"token_id":"tok_1","name":"ci"}]}`))
	require.NoError(t, target.SaveContext("prod", target.Context{Addr: "http://x"}))
	for _, c := range []struct {
		want string
		args []string
	}{
		{"vision\n", []string{"queue", ""}},
		{"vision\n", []string{"submit", "--queue", ""}},
		{"eval_1\tQUEUED\n", []string{"evaluation", ""}},
		{"tok_1\tci\n", []string{"token", "revoke", ""}},
		{"prod\n", []string{"context", ""}},
		{"nvlink\n", []string{"submit", "--topology", ""}},
	} {
		stdout, _, _ := clitest.Run(t, append([]string{"__complete"}, c.args...)...)
		require.Contains(t, stdout, c.want, "%v", c.args)
	}
}

func TestComplete_offersCheckpoints(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs", clitest.Answer(200, `{"jobs":[{"job_id":"job_2","last_checkpoint_id":"ckpt_9"},{"job_id":"job_3"},{"job_id":"job_1","last_checkpoint_id":"ckpt_2"}]}`))
	g.On("GET /jobs/job_1/checkpoints", clitest.Answer(200, `{"checkpoints":[
		{"checkpoint_id":"ckpt_1","step":100,"state":"EXPIRED","kind":"CHECKPOINT"},{"checkpoint_id":"ckpt_2","step":200,"state":"DURABLE","kind":"CHECKPOINT"},
		{"checkpoint_id":"ckpt_3","step":200,"state":"LOCAL","kind":"MODEL"}]}`))
	g.On("GET /jobs/job_2/checkpoints", clitest.Answer(200, `{"checkpoints":[{"checkpoint_id":"ckpt_9","step":7,"state":"LOCAL","kind":"CHECKPOINT"}]}`))
	const newest = "ckpt_9\tstep 7, CHECKPOINT LOCAL, of job_2\n"
	const older = "ckpt_3\tstep 200, MODEL LOCAL, of job_1\nckpt_2\tstep 200, CHECKPOINT DURABLE, of job_1\n"
	for _, command := range []string{"show", "pin", "unpin", "pull"} {
		stdout, _, _ := clitest.Run(t, "__complete", "checkpoint", command, "")
		require.True(t, strings.HasPrefix(stdout, newest+older+":"), "%s: %s", command, stdout)
	}
	for _, args := range [][]string{{"resume", "job_1", "--checkpoint", ""}, {"retry", "job_1", "--checkpoint", ""}, {"evaluate", "job_1", "--checkpoint", ""}} {
		stdout, _, _ := clitest.Run(t, append([]string{"__complete"}, args...)...)
		require.True(t, strings.HasPrefix(stdout, older+":"), "%v: %s", args, stdout)
	}
	stdout, _, _ := clitest.Run(t, "__complete", "resume", "--checkpoint", "")
	require.Contains(t, stdout, newest+older)
	stdout, _, _ = clitest.Run(t, "__complete", "checkpoint", "show", "ckpt_9", "")
	require.NotContains(t, stdout, "ckpt_", "it takes one")
	stdout, _, _ = clitest.Run(t, "__complete", "checkpoint", "pull", "ckpt_9", "")
	require.Contains(t, stdout, ":16\n", "a directory comes next")
}

func TestComplete_checkpointsOfJobsThatCannotBeRead(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs", clitest.Answer(200, `{"jobs":[{"job_id":"job_1","last_checkpoint_id":"ckpt_2"}]}`))
	g.On("GET /jobs/job_1/checkpoints", clitest.Refuse(503, "UNAVAILABLE", "no leader"))
	stdout, _, _ := clitest.Run(t, "__complete", "checkpoint", "show", "")
	require.True(t, strings.HasPrefix(stdout, ":"), "nothing is offered, and no error printed: %s", stdout)
}
