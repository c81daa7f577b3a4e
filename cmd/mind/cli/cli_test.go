package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// gateway is a small one: it answers what a test tells it to, by "METHOD /path", and remembers what it was asked.
type gateway struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	asked   []string
	bodies  []string
	keys    []string
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{answers: map[string]http.HandlerFunc{}}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		g.mu.Lock()
		name := r.Method + " " + strings.TrimPrefix(r.URL.Path, prefix)
		g.asked = append(g.asked, name)
		g.bodies = append(g.bodies, string(body))
		g.keys = append(g.keys, r.Header.Get("Idempotency-Key"))
		answer := g.answers[name]
		g.mu.Unlock()
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			refuse(401, "AUTH_TOKEN_INVALID", "Invalid or expired authentication token")(w, r)
		case answer == nil:
			refuse(404, "NOT_FOUND", "there is no such thing")(w, r)
		default:
			answer(w, r)
		}
	}))
	t.Cleanup(g.Close)
	t.Setenv("MIND_ADDR", g.URL)
	t.Setenv("MIND_TOKEN", "secret")
	t.Setenv("MIND_DEV", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	return g
}

func (g *gateway) on(name string, answer http.HandlerFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answers[name] = answer
}

func data(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"status":"ok","data":%s,"meta":{"request_id":"req_1"}}`, text)
	}
}

func refuse(code int, name, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"status":"error","error":{"code":%q,"message":%q},"meta":{"request_id":"req_1"}}`, name, message)
	}
}

// mind runs the command line and returns what it printed and its exit code.
func mind(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := &cobra.Command{Use: "mind", SilenceErrors: true, SilenceUsage: true}
	AddTo(root, "v1.2.3")
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	code = Report(&errs, root.ExecuteContext(t.Context()))
	return out.String(), errs.String(), code
}

func TestErrors_sayWhatToDoAndExitAccordingly(t *testing.T) {
	g := newGateway(t)
	g.on("GET /jobs/done", refuse(409, "FAILED_PRECONDITION", "it has ended"))
	g.on("GET /jobs/busy", refuse(503, "UNAVAILABLE", "no coordinator leads"))
	g.on("GET /jobs/bare", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) })
	g.on("GET /jobs/page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
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
			stdout, stderr, code := mind(t, c.args...)
			require.Equal(t, c.code, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %q", stderr)
		})
	}
}

func TestOutput_tableJSONAndYAML(t *testing.T) {
	g := newGateway(t)
	g.on("GET /jobs", data(200, `{"jobs":[{"job_id":"job_1","name":"a\tb","status":"QUEUED","priority":5,"resource_config":{"gpu_count":8,"gpu_type":"H100"},"reason":"no node has 8 free"}],"next_page_token":"","total_count":1}`))
	stdout, _, code := mind(t, "jobs")
	require.Zero(t, code)
	require.Regexp(t, `(?m)^job_1 +a b +QUEUED +8xH100 +5 .* +no node has 8 free$`, strings.ReplaceAll(stdout, "  ", "   "))

	g.on("GET /jobs/job_1", data(200, `{"job_id":"job_1","status":"QUEUED","new_field":{"x":[1,2]},"revision":18446744073709551615}`))
	stdout, _, code = mind(t, "job", "job_1", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"job_id":"job_1","status":"QUEUED","new_field":{"x":[1,2]},"revision":18446744073709551615}`, stdout)
	require.Contains(t, stdout, "18446744073709551615", "no figure is rounded")

	stdout, _, code = mind(t, "job", "job_1", "-o", "yaml")
	require.Zero(t, code)
	require.Equal(t, "job_id: job_1\nstatus: QUEUED\nnew_field:\n  x:\n    - 1\n    - 2\nrevision: 18446744073709551615\n", stdout)
}

func TestJobs_fetchesPagesUntilTheLimit(t *testing.T) {
	g := newGateway(t)
	var sizes []string
	g.on("GET /jobs", func(w http.ResponseWriter, r *http.Request) {
		sizes = append(sizes, r.URL.Query().Get("page_size")+r.URL.Query().Get("page_token"))
		var jobs []string
		for i := range 100 {
			jobs = append(jobs, fmt.Sprintf(`{"job_id":"job_%d"}`, i))
		}
		data(200, `{"jobs":[`+strings.Join(jobs[:min(100, 130-100*(len(sizes)-1))], ",")+`],"next_page_token":"-more","total_count":500}`)(w, r)
	})
	stdout, stderr, code := mind(t, "jobs", "--limit", "130")
	require.Zero(t, code, stderr)
	require.Equal(t, []string{"100", "30-more"}, sizes)
	require.Equal(t, 131, strings.Count(stdout, "\n"))
	require.Contains(t, stderr, "130 of 500")
}

// A page of a list that compares labels may be empty, and not the last.
func TestJobs_goesOnAfterAPageThatIsEmpty(t *testing.T) {
	g := newGateway(t)
	g.on("GET /jobs", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("page_token") {
		case "":
			data(200, `{"jobs":[],"next_page_token":"a","total_count":0,"total_count_is_minimum":true}`)(w, r)
		case "a":
			data(200, `{"jobs":[{"job_id":"job_1"}],"next_page_token":"b","total_count":1,"total_count_is_minimum":true}`)(w, r)
		default:
			data(200, `{"jobs":[{"job_id":"job_2"}],"next_page_token":"","total_count":2,"total_count_is_minimum":false}`)(w, r)
		}
	})
	stdout, stderr, code := mind(t, "jobs", "--label", "run=1")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "job_1")
	require.Contains(t, stdout, "job_2")
	require.Empty(t, stderr)
	_, stderr, code = mind(t, "jobs", "--label", "run=1", "--limit", "1")
	require.Zero(t, code, stderr)
	require.Equal(t, "1 of at least 1; more with --limit\n", stderr)
}

func TestSubmit_printsTheIDAloneAndSendsAgainUnderTheSameKey(t *testing.T) {
	g := newGateway(t)
	tries := 0
	g.on("POST /jobs", func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries == 1 {
			panic(http.ErrAbortHandler) // the connection breaks, and nobody knows whether the job was taken
		}
		data(201, `{"job_id":"job_7","status":"PENDING","message":""}`)(w, r)
	})
	stdout, stderr, code := mind(t, "submit", "--gpus", "2", "--", "python", "train.py", "--gpus", "9")
	require.Zero(t, code, stderr)
	require.Equal(t, "job_7\n", stdout)
	require.Len(t, g.keys, 2)
	require.NotEmpty(t, g.keys[0])
	require.Equal(t, g.keys[0], g.keys[1])
	var body map[string]any
	require.NoError(t, json.Unmarshal([]byte(g.bodies[1]), &body))
	require.Equal(t, []any{"python", "train.py", "--gpus", "9"}, body["command_config"].(map[string]any)["argv"])
	require.Equal(t, 2.0, body["resource_config"].(map[string]any)["gpu_count"])

	_, _, code = mind(t, "submit", "--idempotency-key", "mine", "true")
	require.Zero(t, code)
	require.Equal(t, "mine", g.keys[2])
}

func TestSubmit_waitExitsAsTheJobDoes(t *testing.T) {
	for name, c := range map[string]struct {
		job  string
		code int
		want string
	}{
		"completed":     {`"status":"COMPLETED","exit_code":0`, 0, ""},
		"exit code":     {`"status":"FAILED","error_type":"EXIT_NONZERO","exit_code":42`, 42, "EXIT_NONZERO"},
		"no exit code":  {`"status":"FAILED","error_type":"CWD_MISSING","error_message":"no /x"`, 1, "CWD_MISSING (no /x)"},
		"canceled":      {`"status":"CANCELLED"`, 75, "was canceled"},
		"lost":          {`"status":"FAILED","error_type":"NODE_LOST"`, 75, "mind retry job_7"},
		"gave way over": {`"status":"PREEMPTED","finished_at":"2026-01-01T00:00:00Z"`, 75, "was lost"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t)
			g.on("POST /jobs", data(201, `{"job_id":"job_7"}`))
			asked := 0
			g.on("GET /jobs/job_7", func(w http.ResponseWriter, r *http.Request) {
				if asked++; asked == 1 {
					data(200, `{"job_id":"job_7","status":"TRAINING"}`)(w, r)
					return
				}
				data(200, `{"job_id":"job_7",`+c.job+`}`)(w, r)
			})
			stdout, stderr, code := mind(t, "submit", "--wait", "true")
			require.Equal(t, c.code, code)
			require.Equal(t, "job_7\n", stdout)
			require.Contains(t, stderr, c.want)
			require.Equal(t, 2, asked)

			asked = 0
			g.on("GET /jobs/job_7/logs", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, "id: 1\nevent: log\ndata: {\"message\":\"working\"}\n\n"+streamEnd)
			})
			stdout, stderr, code = mind(t, "submit", "--follow", "true")
			require.Equal(t, c.code, code, stderr)
			require.Equal(t, "job_7\nworking\n", stdout)
			require.Contains(t, stderr, c.want)

			asked = 0
			g.on("GET /jobs/job_7/logs", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, "event: error\ndata: {\"code\":\"UNAVAILABLE\",\"message\":\"its log is gone\"}\n\n")
			})
			_, stderr, code = mind(t, "submit", "--follow", "true")
			require.Equal(t, c.code, code, "without its log, too: %s", stderr)
			require.Contains(t, stderr, "its log is gone")
		})
	}
}

func TestControl_goesOnAfterARefusal(t *testing.T) {
	g := newGateway(t)
	g.on("POST /jobs/a/cancel", data(200, `{"job_id":"a","status":"CANCELLED"}`))
	g.on("POST /jobs/b/cancel", refuse(409, "FAILED_PRECONDITION", "it has ended"))
	g.on("POST /jobs/c/cancel", data(200, `{"job_id":"c","status":"CANCELLED"}`))
	stdout, stderr, code := mind(t, "cancel", "--reason", "r", "a", "b", "c")
	require.Equal(t, 1, code)
	require.Equal(t, "a CANCELLED\nc CANCELLED\n", stdout)
	require.Equal(t, "mind: b: it has ended\n", stderr)
	require.JSONEq(t, `{"reason":"r"}`, g.bodies[0])

	g.on("POST /jobs/a/retry", data(200, `{"job_id":"a","status":"PENDING"}`))
	_, stderr, code = mind(t, "retry", "--gpu-type", "H200", "--memory", "1Gi", "--checkpoint", "ckpt_1", "a")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"checkpoint_id":"ckpt_1","modify_resources":{"gpu_type":"H200","memory_mb":1024}}`, g.bodies[len(g.bodies)-1])
}

func TestResolve_flagThenVariableThenDevThenContext(t *testing.T) {
	home, dev := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	for _, v := range []string{"MIND_ADDR", "MIND_TOKEN", "MIND_CACERT", "MIND_DEV"} {
		t.Setenv(v, "")
	}
	resolve := func(tg target) Context {
		c, err := tg.resolve()
		require.NoError(t, err)
		return c
	}
	require.Equal(t, Context{Addr: defaultAddr}, resolve(target{}))

	require.NoError(t, SaveContext("prod", Context{Addr: "https://prod", Token: "p"}))
	require.NoError(t, SaveContext("test", Context{Addr: "http://test", Token: "t"}))
	stat, err := os.Stat(filepath.Join(home, "mind", "config.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), stat.Mode().Perm())
	require.Equal(t, Context{Addr: "http://test", Token: "t"}, resolve(target{}))
	require.Equal(t, Context{Addr: "https://prod", Token: "p"}, resolve(target{context: "prod"}))

	t.Setenv("MIND_DEV", dev)
	_, err = (&target{}).resolve()
	require.ErrorContains(t, err, "mind dev --data-dir "+dev)
	require.NoError(t, os.WriteFile(filepath.Join(dev, "dev.json"), []byte(`{"gateway":{"url":"http://dev"},"token":"d"}`), 0o600))
	require.Equal(t, Context{Addr: "http://dev", Token: "d", Dev: dev}, resolve(target{}))

	t.Setenv("MIND_ADDR", "http://other")
	require.Equal(t, Context{Addr: "http://other"}, resolve(target{}), "another cluster is not given this one's token")
	t.Setenv("MIND_TOKEN", "v")
	require.Equal(t, Context{Addr: "http://flag", Token: "v"}, resolve(target{addr: "flag/"}))
}

func TestContext_listsAndSwitches(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	_, _, code := mind(t, "context", "a", "--set-addr", "http://a", "--set-token", "x")
	require.Zero(t, code)
	_, _, code = mind(t, "context", "b", "--set-addr", "http://b")
	require.Zero(t, code)
	_, _, code = mind(t, "context", "a")
	require.Zero(t, code)
	stdout, _, _ := mind(t, "context")
	require.Regexp(t, `(?m)^\* +a +http://a$`, stdout)
	_, stderr, code := mind(t, "context", "c")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "--set-addr")
	require.NotContains(t, stdout, "x")
}

func TestComplete_offersJobsAndNodes(t *testing.T) {
	g := newGateway(t)
	g.on("GET /jobs", data(200, `{"jobs":[{"job_id":"job_1","name":"n","status":"QUEUED"}]}`))
	g.on("GET /cluster/nodes", data(200, `{"nodes":[{"node_id":"n1","state":"READY"}]}`))
	stdout, _, _ := mind(t, "__complete", "cancel", "")
	require.Contains(t, stdout, "job_1\tn QUEUED\n")
	stdout, _, _ = mind(t, "__complete", "drain", "")
	require.Contains(t, stdout, "n1\tREADY\n")
}

func TestTop_showsTheClusterOnceWhenItIsNotATerminal(t *testing.T) {
	g := newGateway(t)
	g.on("GET /cluster", data(200, `{"nodes_total":2,"nodes_ready":1,"gpus_total":16,"gpus_allocated":3,"gpu_allocation":0.1875,"gpu_utilization":0.634,"jobs":{"RUNNING":2,"FAILED":1,"LOST":1,"SUCCEEDED":4,"CANCELED":1,"HELD":3,"PAUSED":0},"leader":"c2","coordinators":[{"id":"c1","liveness":"dead"},{"id":"c2","leader":true,"liveness":"alive"}]}`))
	g.on("GET /cluster/nodes", data(200, `{"nodes":[{"node_id":"n1","state":"READY","gpus":[{"gpu_type":"H100","health":"HEALTHY","simulated":true},{"gpu_type":"H100","health":"QUARANTINED","simulated":true}]}]}`))
	g.on("GET /jobs", data(200, `{"jobs":[],"total_count":0}`))
	stdout, stderr, code := mind(t, "top")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "c1 (dead) c2*")
	require.Contains(t, stdout, "1 of 2 ready")
	require.Contains(t, stdout, "3 of 16 in use, 63% busy\n")
	require.Contains(t, stdout, "1 cancelled, 4 completed, 2 failed, 3 held, 2 running\n")
	require.Contains(t, stdout, "2xH100 (simulated) (1 unhealthy)")
}

func TestIsTerminal_devNullIsNone(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	require.False(t, isTerminal(null), "`mind top >/dev/null` must end")
	require.False(t, isTerminal(&bytes.Buffer{}))
}
