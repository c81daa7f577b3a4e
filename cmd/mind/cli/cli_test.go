package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestErrors_sayWhatToDoAndExitAccordingly(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/done", clitest.Refuse(409, "FAILED_PRECONDITION", "it has ended"))
	g.On("GET /jobs/busy", clitest.Refuse(503, "UNAVAILABLE", "no coordinator leads"))
	g.On("GET /jobs/bare", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) })
	g.On("GET /jobs/page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown job":      {[]string{"job", "nope"}, 1, "mind: there is no such thing: `mind jobs` lists those of your tenant\n"},
		"refused":          {[]string{"job", "done"}, 1, "mind: it has ended\n"},
		"no leader":        {[]string{"job", "busy"}, 1, "try again in a moment"},
		"no envelope":      {[]string{"job", "bare"}, 1, "502 Bad Gateway"},
		"not a gateway":    {[]string{"job", "page"}, 1, "check the address"},
		"wrong token":      {[]string{"job", "done", "--token", "bad"}, 1, "MIND_TOKEN"},
		"nobody there":     {[]string{"job", "done", "--addr", "127.0.0.1:1"}, 1, "Start a cluster with `mind dev`"},
		"not an address":   {[]string{"job", "done", "--addr", "ftp://x"}, 2, "is not an address"},
		"unknown context":  {[]string{"job", "done", "--context", "x"}, 2, `there is no context "x"`},
		"missing argument": {[]string{"job"}, 2, "mind job needs JOB; for example: mind job job_1a2b"},
		"unknown output":   {[]string{"job", "done", "-o", "xml"}, 2, "table, json or yaml"},
		"nothing to run":   {[]string{"submit"}, 2, "nothing to run"},
		"no coordinators":  {[]string{"raft", "peers"}, 2, "MIND_DEV"},
		"retry, bad size":  {[]string{"retry", "done", "--memory", "lots"}, 2, "is not a size"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := clitest.Run(t, c.args...)
			require.Equal(t, c.code, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %q", stderr)
		})
	}
}

func TestOutput_tableJSONAndYAML(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs", clitest.Answer(200, `{"jobs":[{"job_id":"job_1","name":"a\tb","status":"QUEUED","priority":5,"resource_config":{"gpu_count":8,"gpu_type":"H100"},"reason":"no node has 8 free"}],"next_page_token":"","total_count":1}`))
	stdout, _, code := clitest.Run(t, "jobs")
	require.Zero(t, code)
	require.Regexp(t, `(?m)^job_1 +a b +QUEUED +8xH100 +5 .* +no node has 8 free$`, strings.ReplaceAll(stdout, "  ", "   "))

	g.On("GET /jobs/job_1", clitest.Answer(200, `{"job_id":"job_1","status":"QUEUED","new_field":{"x":[1,2]},"revision":18446744073709551615}`))
	stdout, _, code = clitest.Run(t, "job", "job_1", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"job_id":"job_1","status":"QUEUED","new_field":{"x":[1,2]},"revision":18446744073709551615}`, stdout)
	require.Contains(t, stdout, "18446744073709551615", "no figure is rounded")

	stdout, _, code = clitest.Run(t, "job", "job_1", "-o", "yaml")
	require.Zero(t, code)
	require.Equal(t, "job_id: job_1\nstatus: QUEUED\nnew_field:\n  x:\n    - 1\n    - 2\nrevision: 18446744073709551615\n", stdout)
}
