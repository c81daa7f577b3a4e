package cli_test

import (
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
