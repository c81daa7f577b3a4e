package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestMisuse_saysWhatWouldHaveBeenRight(t *testing.T) {
	clitest.NewGateway(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a shell that is none":             {[]string{"completion", "klingon"}, `"klingon": it is one of bash`},
		"help of nothing":                  {[]string{"help", "jbos"}, `"jbos": did you mean mind job or jobs?`},
		"help of nothing below something":  {[]string{"help", "quota", "lst"}, `"lst": did you mean mind quota list or set?`},
		"a number that is none":            {[]string{"submit", "--gpus", "two", "true"}, "--gpus two: it must be a whole number"},
		"a time without a unit":            {[]string{"submit", "--time-limit", "5", "true"}, "--time-limit 5: it must be a time such as 90s"},
		"a list of nothing":                {[]string{"jobs", "--limit", "0"}, "--limit 0: it must be 1 or more"},
		"evaluations of nothing":           {[]string{"evaluations", "--limit", "-3"}, "it must be 1 or more"},
		"an audit of nothing":              {[]string{"audit", "--limit", "0"}, "it must be 1 or more"},
		"a negative tail":                  {[]string{"logs", "--tail", "-5", "job_1"}, "--tail -5: it must not be negative"},
		"no id":                            {[]string{"job", ""}, `there is nothing with the id ""`},
		"an id that leads elsewhere":       {[]string{"job", ".."}, `there is nothing with the id ".."`},
		"a queue without a name":           {[]string{"queues", "put", ""}, `there is nothing with the id ""`},
		"an IPv6 address without brackets": {[]string{"jobs", "--addr", "::1"}, "http://[::1]:8080"},
		"an address with a user":           {[]string{"jobs", "--addr", "http://u:p@h:1"}, "is not an address"},
		"an address with a question":       {[]string{"jobs", "--addr", "http://h:1?x=1"}, "is not an address"},
		"a token of two lines":             {[]string{"jobs", "--token", "a\nb"}, "characters that no token has"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := clitest.Run(t, c.args...)
			require.Equal(t, 2, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %q", stderr)
		})
	}
}

func TestHelp_knowsCommandsOnly(t *testing.T) {
	for _, args := range [][]string{{"help", "jobs"}, {"help", "queues", "put"}, {"help"}, {"quota"}, {"completion"}} {
		stdout, stderr, code := clitest.Run(t, args...)
		require.Zero(t, code, stderr)
		require.NotEmpty(t, stdout)
	}
}

// Text from users is shown to administrators of the cluster: it must not control their terminals.
func TestOutput_replacesTerminalControls(t *testing.T) {
	g := clitest.NewGateway(t)
	const evil = `\u001b[31mred\u202e\u009b2J\r\u0007 日本 é`
	g.On("GET /cluster/nodes", clitest.Answer(200, `{"nodes":[{"node_id":"n1","state":"DRAINED","reason":"`+evil+`"}]}`))
	g.On("GET /jobs/job_1", clitest.Answer(200, `{"job_id":"job_1","name":"`+evil+`"}`))
	g.On("GET /jobs/job_1/explain", clitest.Answer(200, `{"state":"QUEUED","status":"QUEUED","reason":"`+evil+`","details":["`+evil+`"]}`))
	g.On("POST /jobs/job_1/cancel", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(409)
		fmt.Fprint(w, `{"error":{"code":"FAILED_PRECONDITION","message":"`+evil+`"}}`)
	})
	for _, args := range [][]string{{"nodes"}, {"job", "job_1"}, {"explain", "job_1"}, {"cancel", "job_1"}} {
		stdout, stderr, _ := clitest.Run(t, args...)
		text := stdout + stderr
		require.Contains(t, text, "red")
		require.NotRegexp(t, `[\x00-\x09\x0b-\x1f\x7f-\x9f\x{202e}]`, text, "%v", args)
	}
	stdout, _, _ := clitest.Run(t, "nodes")
	require.Contains(t, stdout, "日本 é", "other scripts are themselves")
	stdout, _, _ = clitest.Run(t, "job", "job_1", "-o", "json")
	require.Contains(t, stdout, `\u001b[31m`, "programs get what was written")
}
