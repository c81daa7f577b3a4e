package cli_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli"
	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
)

func TestInterrupt_saysWhatIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		at   string
		want string
	}{
		"while it is asked":      {[]string{"jobs"}, "GET /jobs", "mind: interrupted\n"},
		"while it is submitted":  {[]string{"submit", "--idempotency-key", "k1", "true"}, "POST /jobs", "it is unknown whether the call was carried out; repeat it with --idempotency-key k1, and it is not carried out twice\n"},
		"while it is canceled":   {[]string{"cancel", "job_7"}, "POST /jobs/job_7/cancel", "it is unknown whether the call was carried out\n"},
		"while it is waited for": {[]string{"submit", "--wait", "true"}, "GET /jobs/job_7", "the job goes on: `mind job job_7` shows it"},
		"while it is followed":   {[]string{"submit", "--follow", "true"}, "GET /jobs/job_7/logs", "the job goes on: `mind job job_7` shows it, `mind logs -f job_7` follows it again"},
		"while it is watched":    {[]string{"logs", "-f", "job_7"}, "GET /jobs/job_7/logs", "the job goes on: `mind job job_7` shows it"},
		"while metrics come":     {[]string{"metrics", "-f", "job_7"}, "GET /jobs/job_7/metrics/stream", "the job goes on"},
		"while it is drained":    {[]string{"drain", "n1", "--wait"}, "GET /cluster/nodes/n1", "the drain of n1 goes on: `mind nodes n1` shows it"},
		"while it is evaluated":  {[]string{"evaluate", "job_7", "--benchmark", "mmlu", "--wait"}, "GET /evaluations/eval_7", "the evaluation goes on: `mind evaluation eval_7` shows it"},
		"while events come":      {[]string{"events", "-f"}, "GET /events", "mind: interrupted\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := clitest.NewGateway(t)
			ctx, interrupt := context.WithCancel(t.Context())
			g.On("POST /jobs", clitest.Answer(201, `{"job_id":"job_7"}`))
			g.On("POST /cluster/nodes/n1/drain", clitest.Answer(200, `{"node_id":"n1","state":"DRAINING"}`))
			g.On("POST /evaluations", clitest.Answer(201, `{"evaluation_id":"eval_7"}`))
			g.On("GET /jobs/job_7", clitest.Answer(200, `{"job_id":"job_7","status":"TRAINING"}`))
			g.On(c.at, func(_ http.ResponseWriter, r *http.Request) {
				interrupt()
				<-r.Context().Done()
			})
			root := &cobra.Command{Use: "mind", SilenceErrors: true, SilenceUsage: true}
			cli.AddTo(root, "v")
			var errs strings.Builder
			root.SetOut(io.Discard)
			root.SetErr(&errs)
			root.SetArgs(c.args)
			require.Equal(t, 130, exit.Report(&errs, root.ExecuteContext(ctx)))
			require.Contains(t, errs.String(), c.want)
		})
	}
}
