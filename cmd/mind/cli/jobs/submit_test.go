package jobs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli"
	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestSubmit_printsTheIDAloneAndSendsAgainUnderTheSameKey(t *testing.T) {
	g := clitest.NewGateway(t)
	tries := 0
	g.On("POST /jobs", func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries == 1 {
			panic(http.ErrAbortHandler) // the connection breaks, and it is unknown whether the job was submitted
		}
		clitest.Answer(201, `{"job_id":"job_7","status":"PENDING","message":""}`)(w, r)
	})
	stdout, stderr, code := clitest.Run(t, "submit", "--gpus", "2", "--", "python", "train.py", "--gpus", "9")
	require.Zero(t, code, stderr)
	require.Equal(t, "job_7\n", stdout)
	require.Len(t, g.Keys, 2)
	require.NotEmpty(t, g.Keys[0])
	require.Equal(t, g.Keys[0], g.Keys[1])
	var body map[string]any
	require.NoError(t, json.Unmarshal([]byte(g.Bodies[1]), &body))
	require.Equal(t, []any{"python", "train.py", "--gpus", "9"}, body["command_config"].(map[string]any)["argv"])
	require.Equal(t, 2.0, body["resource_config"].(map[string]any)["gpu_count"])

	_, _, code = clitest.Run(t, "submit", "--idempotency-key", "mine", "true")
	require.Zero(t, code)
	require.Equal(t, "mine", g.Keys[2])
}

func TestSubmit_waitExitsAsTheJobDoes(t *testing.T) {
	for name, c := range map[string]struct {
		job  string
		code int
		want string
	}{
		"completed":       {`"status":"COMPLETED","exit_code":0`, 0, ""},
		"exit code":       {`"status":"FAILED","error_type":"EXIT_NONZERO","exit_code":42`, 42, "EXIT_NONZERO"},
		"no exit code":    {`"status":"FAILED","error_type":"CWD_MISSING","error_message":"no /x"`, 1, "CWD_MISSING (no /x)"},
		"canceled":        {`"status":"CANCELLED"`, 75, "was canceled"},
		"lost":            {`"status":"FAILED","error_type":"NODE_LOST"`, 75, "mind retry job_7"},
		"preempted, over": {`"status":"PREEMPTED","finished_at":"2026-01-01T00:00:00Z"`, 75, "was lost"},
	} {
		t.Run(name, func(t *testing.T) {
			g := clitest.NewGateway(t)
			g.On("POST /jobs", clitest.Answer(201, `{"job_id":"job_7"}`))
			asked := 0
			g.On("GET /jobs/job_7", func(w http.ResponseWriter, r *http.Request) {
				if asked++; asked == 1 {
					clitest.Answer(200, `{"job_id":"job_7","status":"TRAINING"}`)(w, r)
					return
				}
				clitest.Answer(200, `{"job_id":"job_7",`+c.job+`}`)(w, r)
			})
			stdout, stderr, code := clitest.Run(t, "submit", "--wait", "true")
			require.Equal(t, c.code, code)
			require.Equal(t, "job_7\n", stdout)
			require.Contains(t, stderr, c.want)
			require.Equal(t, 2, asked)

			asked = 0
			g.On("GET /jobs/job_7/logs", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, "id: 1\nevent: log\ndata: {\"message\":\"working\"}\n\n"+streamEnd)
			})
			stdout, stderr, code = clitest.Run(t, "submit", "--follow", "true")
			require.Equal(t, c.code, code, stderr)
			require.Equal(t, "job_7\nworking\n", stdout)
			require.Contains(t, stderr, c.want)

			asked = 0
			g.On("GET /jobs/job_7/logs", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, "event: error\ndata: {\"code\":\"UNAVAILABLE\",\"message\":\"its log is gone\"}\n\n")
			})
			_, stderr, code = clitest.Run(t, "submit", "--follow", "true")
			require.Equal(t, c.code, code, "without its log, too: %s", stderr)
			require.Contains(t, stderr, "its log is gone")
		})
	}
}

// full is a writer to a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestSubmit_saysTheIDWhenItCannotBePrinted(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /jobs", clitest.Answer(201, `{"job_id":"job_7"}`))
	root := &cobra.Command{Use: "mind", SilenceErrors: true, SilenceUsage: true}
	cli.AddTo(root, "v")
	root.SetOut(full{})
	root.SetArgs([]string{"submit", "true"})
	require.ErrorContains(t, root.ExecuteContext(t.Context()), "job_7 was submitted, but its id could not be printed")
}

func TestSubmit_waitEndsWhenTheTokenDoes(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /jobs", clitest.Answer(201, `{"job_id":"job_7"}`))
	asked := 0
	g.On("GET /jobs/job_7", func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			clitest.Answer(200, `{"job_id":"job_7","status":"TRAINING"}`)(w, r)
			return
		}
		clitest.Refuse(401, "AUTH_TOKEN_INVALID", "Invalid or expired authentication token")(w, r)
	})
	_, stderr, code := clitest.Run(t, "submit", "--wait", "true")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "Invalid or expired")
	require.Equal(t, 2, asked, "the same would be refused again")
}

func TestSubmit_warnsOfItsFlagsInTheCommand(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /jobs", clitest.Answer(201, `{"job_id":"job_1"}`))
	warning := "mind: warning: --gpus, --name after the command: part of the command, and no flag of mind submit; write flags first, then --, then the command\n"
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"submit", "python", "train.py", "--gpus", "2", "--name=x", "--lr", "1"}, warning},
		{[]string{"submit", "--", "python", "train.py", "--gpus", "2"}, ""},
		{[]string{"submit", "--gpus", "2", "python", "train.py", "--lr", "1"}, ""},
	} {
		stdout, stderr, code := clitest.Run(t, tc.args...)
		require.Zero(t, code)
		require.Equal(t, "job_1\n", stdout)
		require.Equal(t, tc.says, stderr)
	}
}
