package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestMisuse_saysWhatWouldHaveBeenRight(t *testing.T) {
	newGateway(t)
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
			stdout, stderr, code := mind(t, c.args...)
			require.Equal(t, 2, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %q", stderr)
		})
	}
}

func TestHelp_knowsCommandsOnly(t *testing.T) {
	for _, args := range [][]string{{"help", "jobs"}, {"help", "queues", "put"}, {"help"}, {"quota"}, {"completion"}} {
		stdout, stderr, code := mind(t, args...)
		require.Zero(t, code, stderr)
		require.NotEmpty(t, stdout)
	}
}

func TestAddress_asPeopleWriteIt(t *testing.T) {
	g := newGateway(t)
	g.on("GET /jobs", data(200, `{"jobs":[],"total_count":0}`))
	host := strings.TrimPrefix(g.URL, "http://")
	for _, addr := range []string{host, host + "/", g.URL + "///", " " + g.URL + "\n", g.URL + prefix, g.URL + prefix + "/"} {
		_, stderr, code := mind(t, "jobs", "--addr", addr, "--token", " secret\n")
		require.Zero(t, code, "%q: %s", addr, stderr)
	}
	_, stderr, code := mind(t, "jobs", "--addr", "https://"+host)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "does not speak HTTPS: write http://")

	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = nil
	_, stderr, code = mind(t, "jobs", "--addr", secure.URL)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "MIND_CACERT or --ca-cert")
	_, stderr, code = mind(t, "jobs", "--addr", strings.TrimPrefix(secure.URL, "https://"))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "write https://")
}

func TestRefusal_saysEachThingOnce(t *testing.T) {
	g := newGateway(t)
	g.on("GET /jobs", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(422)
		fmt.Fprint(w, `{"error":{"code":"VALIDATION_ERROR","message":"a: is bad (and 1 more)","details":[{"field":"a","message":"is bad"},{"field":"b","message":"is worse"}]}}`)
	})
	_, stderr, _ := mind(t, "jobs")
	require.Equal(t, "mind: a: is bad; b: is worse\n", stderr)

	g.on("GET /jobs", refuse(400, "INVALID_ARGUMENT", "a: is \u202ebad\nb: is worse"))
	_, stderr, _ = mind(t, "jobs")
	require.Equal(t, "mind: a: is \uFFFDbad; b: is worse\n", stderr)

	g.on("GET /jobs", refuse(409, "FAILED_PRECONDITION", "it has\nended"))
	_, stderr, _ = mind(t, "jobs")
	require.Equal(t, "mind: it has; ended\n", stderr)
}

func TestControl_answersOnceForSeveralJobs(t *testing.T) {
	g := newGateway(t)
	g.on("POST /jobs/a/cancel", data(200, `{"job_id":"a"}`))
	g.on("POST /jobs/c/cancel", data(200, `{"job_id":"c"}`))
	stdout, _, code := mind(t, "cancel", "a", "b", "c", "-o", "json")
	require.Equal(t, 1, code)
	require.JSONEq(t, `{"jobs":[{"job_id":"a"},{"job_id":"c"}]}`, stdout)
	stdout, _, code = mind(t, "cancel", "a", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"job_id":"a"}`, stdout)
	stdout, _, _ = mind(t, "cancel", "x", "y", "-o", "json")
	require.JSONEq(t, `{"jobs":[]}`, stdout)
}

// What somebody else wrote is shown to people who administer the cluster: it must not steer their terminals.
func TestOutput_replacesTerminalControls(t *testing.T) {
	g := newGateway(t)
	const evil = `\u001b[31mred\u202e\u009b2J\r\u0007 日本 é`
	g.on("GET /cluster/nodes", data(200, `{"nodes":[{"node_id":"n1","state":"DRAINED","reason":"`+evil+`"}]}`))
	g.on("GET /jobs/job_1", data(200, `{"job_id":"job_1","name":"`+evil+`"}`))
	g.on("GET /jobs/job_1/explain", data(200, `{"state":"QUEUED","status":"QUEUED","reason":"`+evil+`","details":["`+evil+`"]}`))
	g.on("POST /jobs/job_1/cancel", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(409)
		fmt.Fprint(w, `{"error":{"code":"FAILED_PRECONDITION","message":"`+evil+`"}}`)
	})
	for _, args := range [][]string{{"nodes"}, {"job", "job_1"}, {"explain", "job_1"}, {"cancel", "job_1"}} {
		stdout, stderr, _ := mind(t, args...)
		text := stdout + stderr
		require.Contains(t, text, "red")
		require.NotRegexp(t, `[\x00-\x09\x0b-\x1f\x7f-\x9f\x{202e}]`, text, "%v", args)
	}
	stdout, _, _ := mind(t, "nodes")
	require.Contains(t, stdout, "日本 é", "other scripts are themselves")
	stdout, _, _ = mind(t, "job", "job_1", "-o", "json")
	require.Contains(t, stdout, `\u001b[31m`, "programs get what was written")
}

// full is a disk with no room left.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestSubmit_saysTheIDWhenItCannotBePrinted(t *testing.T) {
	g := newGateway(t)
	g.on("POST /jobs", data(201, `{"job_id":"job_7"}`))
	root := &cobra.Command{Use: "mind", SilenceErrors: true, SilenceUsage: true}
	AddTo(root, "v")
	root.SetOut(full{})
	root.SetArgs([]string{"submit", "true"})
	require.ErrorContains(t, root.ExecuteContext(t.Context()), "job_7 was submitted, but its id could not be printed")
}

func TestSubmit_waitEndsWhenTheTokenDoes(t *testing.T) {
	g := newGateway(t)
	g.on("POST /jobs", data(201, `{"job_id":"job_7"}`))
	asked := 0
	g.on("GET /jobs/job_7", func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			data(200, `{"job_id":"job_7","status":"TRAINING"}`)(w, r)
			return
		}
		refuse(401, "AUTH_TOKEN_INVALID", "Invalid or expired authentication token")(w, r)
	})
	_, stderr, code := mind(t, "submit", "--wait", "true")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "Invalid or expired")
	require.Equal(t, 2, asked, "the same would be refused again")
}

func TestInterrupt_saysWhatIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		at   string
		want string
	}{
		"while it is asked":      {[]string{"jobs"}, "GET /jobs", "mind: interrupted\n"},
		"while it is submitted":  {[]string{"submit", "--idempotency-key", "k1", "true"}, "POST /jobs", "it may have been done or not; with --idempotency-key k1 it is not done twice\n"},
		"while it is canceled":   {[]string{"cancel", "job_7"}, "POST /jobs/job_7/cancel", "it may have been done or not\n"},
		"while it is waited for": {[]string{"submit", "--wait", "true"}, "GET /jobs/job_7", "the job goes on: `mind job job_7` shows it"},
		"while it is followed":   {[]string{"submit", "--follow", "true"}, "GET /jobs/job_7/logs", "the job goes on: `mind job job_7` shows it, `mind logs -f job_7` follows it again"},
		"while it is watched":    {[]string{"logs", "-f", "job_7"}, "GET /jobs/job_7/logs", "the job goes on: `mind job job_7` shows it"},
		"while metrics come":     {[]string{"metrics", "-f", "job_7"}, "GET /jobs/job_7/metrics/stream", "the job goes on"},
		"while it is drained":    {[]string{"drain", "n1", "--wait"}, "GET /cluster/nodes/n1", "the drain of n1 goes on: `mind nodes n1` shows it"},
		"while it is evaluated":  {[]string{"evaluate", "job_7", "--benchmark", "mmlu", "--wait"}, "GET /evaluations/eval_7", "the evaluation goes on: `mind evaluation eval_7` shows it"},
		"while events come":      {[]string{"events", "-f"}, "GET /events", "mind: interrupted\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t)
			ctx, interrupt := context.WithCancel(t.Context())
			g.on("POST /jobs", data(201, `{"job_id":"job_7"}`))
			g.on("POST /cluster/nodes/n1/drain", data(200, `{"node_id":"n1","state":"DRAINING"}`))
			g.on("POST /evaluations", data(201, `{"evaluation_id":"eval_7"}`))
			g.on("GET /jobs/job_7", data(200, `{"job_id":"job_7","status":"TRAINING"}`))
			g.on(c.at, func(_ http.ResponseWriter, r *http.Request) {
				interrupt()
				<-r.Context().Done()
			})
			root := &cobra.Command{Use: "mind", SilenceErrors: true, SilenceUsage: true}
			AddTo(root, "v")
			var errs strings.Builder
			root.SetOut(io.Discard)
			root.SetErr(&errs)
			root.SetArgs(c.args)
			require.Equal(t, 130, Report(&errs, root.ExecuteContext(ctx)))
			require.Contains(t, errs.String(), c.want)
		})
	}
}

func TestEvents_withoutFollowShowWhatIsRemembered(t *testing.T) {
	g := newGateway(t)
	var since string
	g.on("GET /events", func(w http.ResponseWriter, r *http.Request) {
		since = r.URL.Query().Get("since_index")
		fmt.Fprint(w, "id: 5.0\nevent: node\ndata: {\"index\":5,\"topic\":\"node\",\"nodes\":[\"n1\"],\"node_to\":\"READY\"}\n\nevent: error\ndata: {\"error\":\"stream ended\"}\n\n")
	})
	stdout, stderr, code := mind(t, "events")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "n1 READY")
	require.Equal(t, "0", since)
}

func TestContexts_refuseABadFileAndBadValues(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	for _, v := range []string{"MIND_ADDR", "MIND_TOKEN", "MIND_CACERT", "MIND_DEV"} {
		t.Setenv(v, "")
	}
	file := filepath.Join(home, "mind", "config.yaml")
	write := func(text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	g := httptest.NewServer(data(200, `{"jobs":[],"total_count":0}`))
	t.Cleanup(g.Close)

	write("")
	_, stderr, code := mind(t, "jobs")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "is empty: put a copy of it back, or remove it", "it is not taken for one without contexts")

	write("current: a\ncontexts:\n  a: {adress: http://x}\n")
	_, stderr, code = mind(t, "jobs")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "field adress not found")
	require.Contains(t, stderr, "repair it")
	_, stderr, code = mind(t, "jobs", "--addr", g.URL, "--token", "t")
	require.Zero(t, code, "what is not needed keeps nobody from anything: %s", stderr)

	write("current: gone\ncontexts:\n  a: {addr: http://x}\n")
	_, stderr, code = mind(t, "jobs")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `the current context "gone" is not there any more`)

	write("current: a\ncontexts:\n  a: {addr: " + g.URL + "/, token: t}\n")
	_, stderr, code = mind(t, "jobs")
	require.Zero(t, code)
	require.Empty(t, stderr)
	require.NoError(t, os.Chmod(file, 0o644))
	_, stderr, code = mind(t, "jobs")
	require.Zero(t, code)
	require.Contains(t, stderr, "chmod 600 "+file)
	_, stderr, code = mind(t, "jobs", "--context", "a", "--addr", "http://127.0.0.1:1")
	require.Equal(t, 2, code, "the token is for another address")
	require.Contains(t, stderr, `context "a"`)

	for _, args := range [][]string{{"", "--set-addr", g.URL}, {"b", "--set-addr", "ftp://x"}, {"b", "--set-addr", "http://"}} {
		_, stderr, code = mind(t, append([]string{"context"}, args...)...)
		require.Equal(t, 2, code, stderr)
	}
	_, stderr, code = mind(t, "context", "b", "--set-token", "x")
	require.Equal(t, 1, code, "a context must have an address")
	require.Contains(t, stderr, "--set-addr")

	_, stderr, code = mind(t, "context", "a", "--set-token", "new")
	require.Zero(t, code, stderr)
	all, err := readContexts()
	require.NoError(t, err)
	require.Equal(t, Context{Addr: g.URL, Token: "new"}, all.Contexts["a"], "what is not set stays")
	_, _, code = mind(t, "context", "a", "--set-addr", "other:1")
	require.Zero(t, code)
	all, err = readContexts()
	require.NoError(t, err)
	require.Equal(t, Context{Addr: "http://other:1"}, all.Contexts["a"], "a token goes to nobody else")

	stdout, _, code := mind(t, "context", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"contexts":[{"name":"a","addr":"http://other:1","ca_cert":"","dev":"","current":true}]}`, stdout)
	require.NoError(t, os.Remove(file))
	stdout, _, code = mind(t, "context", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"contexts":[]}`, stdout)
}

func TestComplete_offersQueuesEvaluationsTokensContexts(t *testing.T) {
	g := newGateway(t)
	g.on("GET /queues", data(200, `{"queues":[{"name":"vision","weight":1}]}`))
	g.on("GET /evaluations", data(200, `{"evaluations":[{"evaluation_id":"eval_1","status":"QUEUED"}]}`))
	g.on("GET /tokens", data(200, `{"tokens":[{"token_id":"tok_1","name":"ci"}]}`))
	require.NoError(t, SaveContext("prod", Context{Addr: "http://x"}))
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
		stdout, _, _ := mind(t, append([]string{"__complete"}, c.args...)...)
		require.Contains(t, stdout, c.want, "%v", c.args)
	}
}
