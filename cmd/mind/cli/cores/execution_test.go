package cores_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

const (
	running = `{"execution_id":"exec_1","core_id":"core_1","version":1,"flow":"main","status":"running","waiting_for":[],"steps":[],"finished_at":null}`
	waiting = `{"execution_id":"exec_1","core_id":"core_1","core_slug":"nightly","version":1,"flow":"main","status":"waiting","input":{"n":1},"trigger":"api","user_id":"ann",
		"waiting_for":[{"step":"ask","kind":"decision","id":"dec_1","since":"2026-01-02T03:04:05Z","until":"2026-01-03T03:04:05Z"}],
		"steps":[{"step":"train","kind":"compute","attempt":2,"status":"completed","started_at":"2026-01-02T03:00:00Z","ended_at":"2026-01-02T03:04:05Z"},
			{"step":"ask","kind":"checkpoint","status":"running","started_at":"2026-01-02T03:04:05Z"}],"created_at":"2026-01-02T03:00:00Z","finished_at":null}`
	completed = `{"execution_id":"exec_1","core_id":"core_1","status":"completed","output":{"published":true,"score":0.5},"finished_at":"2026-01-02T03:04:05Z"}`
	failed    = `{"execution_id":"exec_1","core_id":"core_1","status":"failed","error":{"code":"OOM","message":"out of memory","step":"train"},"finished_at":"2026-01-02T03:04:05Z"}`
	canceled  = `{"execution_id":"exec_1","core_id":"core_1","status":"canceled","error":{"code":"CANCELED","message":"wrong data"},"finished_at":"2026-01-02T03:04:05Z"}`
	asked     = `{"id":"dec_1","core_id":"core_1","core_slug":"nightly","execution_id":"exec_1","flow_name":"main","step":"ask","checkpoint_type":"approval","prompt":"Ship it?",
		"options":[{"id":"ship","label":"Ship it"},{"id":"keep it","label":""}],"status":"pending","priority":"high","assignee_raw":"role:reviewer",
		"expires_at":"2026-01-03T03:04:05Z","expiry_action":"escalate","escalation_target":"user:bob","subject_digest":"sha256:1","quorum":{"needed":2,"of":3},
		"votes":[{"user_id":"ann","resolution":"ship","comment":"fine"}],"context":{"score":0.5},"created_at":"2026-01-02T03:04:05Z",
		"notification_sent":true,"notified_at":"2026-01-02T03:04:06Z","notify_error":"it answered 500"}`
	invoke = "POST " + prefix + "/cores/x/invoke"
	get    = "GET " + prefix + "/executions/exec_1"
)

func TestInvoke_printsTheOutput(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On(invoke, clitest.Answer(200, completed))
	stdout, stderr, code := clitest.RunAsked(t, `{"n": 12345678901234567890}`, "core", "invoke", "x", "--input", "-", "--flow", "main", "--idempotency-key", "k1")
	require.Zero(t, code, stderr)
	require.Equal(t, "{\n  \"published\": true,\n  \"score\": 0.5\n}\n", stdout)
	require.Empty(t, stderr)
	require.JSONEq(t, `{"input":{"n": 12345678901234567890},"flow":"main","wait_seconds":1}`, last(g.Bodies))
	require.Contains(t, last(g.Bodies), "12345678901234567890", "no figure is rounded")
	require.Equal(t, "k1", last(g.Keys))

	require.JSONEq(t, completed, clitest.Done(t, "core", "invoke", "x", "--input", "@"+file(t, "i.yaml", "a: b\n"), "-o", "json"))
	require.JSONEq(t, `{"input":{"a":"b"},"wait_seconds":1}`, last(g.Bodies))
	clitest.Done(t, "core", "invoke", "x", "--input", `"text"`)
	require.Contains(t, last(g.Bodies), `"input":"text"`)

	g.On(invoke, clitest.Answer(202, running))
	require.Equal(t, "exec_1\n", clitest.Done(t, "core", "invoke", "x", "--no-wait"))
	require.JSONEq(t, `{"wait_seconds":0}`, last(g.Bodies))
}

func TestInvoke_endsAsTheExecution(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On(invoke, clitest.Answer(202, running))
	g.On("GET "+prefix+"/checkpoints/dec_1", clitest.Answer(200, asked))
	for says, c := range map[string]struct {
		then http.HandlerFunc
		code int
		args []string
	}{
		"mind: exec_1 failed at the step train: OOM: out of memory: `mind execution retry exec_1` goes on from there\n": {clitest.Answer(200, failed), 1, nil},
		"mind: exec_1 is canceled: CANCELED: wrong data\n":                                                              {clitest.Answer(200, canceled), 1, nil},
		"mind: exec_1 is running: `mind execution watch exec_1` follows it\n":                                           {clitest.Answer(200, running), 75, []string{"--wait", "1ms"}},
		"until ": {clitest.Answer(200, waiting), 75, nil},
		"mind: exec_1 is paused: `mind execution resume exec_1` lets it go on\n": {clitest.Answer(200, strings.Replace(running, "running", "paused", 1)), 75, nil},
	} {
		g.On(get, c.then)
		stdout, stderr, code := clitest.Run(t, append([]string{"core", "invoke", "x"}, c.args...)...)
		require.Equal(t, c.code, code, stderr)
		require.Empty(t, stdout)
		require.Contains(t, stderr, says)
		require.Equal(t, 1, strings.Count(stderr, "\n"))
	}
	g.On(get, clitest.Answer(200, waiting))
	_, stderr, _ := clitest.Run(t, "core", "invoke", "x")
	require.Contains(t, stderr, "exec_1 is not over: ask waits for the decision dec_1 of role:reviewer (Ship it?), since ")
	require.Contains(t, stderr, ": `mind decision resolve dec_1 ship|'keep it'`\n")

	g.On(get, inTurn(clitest.Answer(200, waiting), clitest.Answer(200, waiting), clitest.Answer(200, completed)))
	require.Contains(t, clitest.Done(t, "core", "invoke", "x", "--wait", "10m"), "published", "people are waited for, too")

	g.On(invoke, clitest.Refuse(409, "FAILED_PRECONDITION", "the Core x is stopped: start it first"))
	require.Equal(t, "mind: the Core x is stopped: start it first: `mind core start x --wait`\n", clitest.Fails(t, "core", "invoke", "x"))
}

func TestSend(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST "+prefix+"/cores/x/events", clitest.Answer(200, `{"status":"accepted","woken":1,"execution_ids":["exec_1","exec_2"]}`))
	require.Equal(t, "data.here woke 1 and started exec_1, exec_2\n", clitest.Done(t, "core", "send", "x", "data.here", "--data", `[1]`))
	require.JSONEq(t, `{"event_name":"data.here","data":[1]}`, last(g.Bodies))
}

func TestExecution_listAndShow(t *testing.T) {
	g := clitest.NewGateway(t)
	query := ""
	g.On("GET "+prefix+"/executions", func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		clitest.Answer(200, `{"executions":[`+waiting+`,`+failed+`],"next_cursor":""}`)(w, r)
	})
	text := clitest.Squeeze(clitest.Done(t, "execution", "list", "--core", "x", "--status", "waiting"))
	require.Equal(t, "core_id=x&limit=50&status=waiting", query)
	require.Contains(t, text, "ann ask: decision dec_1\n")
	require.Contains(t, text, "OOM: out of memory")

	g.On(get, clitest.Answer(200, waiting))
	g.On("GET "+prefix+"/checkpoints/dec_1", clitest.Refuse(403, "AUTHZ_PERMISSION_DENIED", "no"))
	text = clitest.Squeeze(clitest.Done(t, "execution", "show", "exec_1"))
	require.Contains(t, text, "STEP KIND STATUS TRY TOOK ERROR\ntrain compute completed 2 4m05s\nask checkpoint running 1 ")
	require.Contains(t, text, "\nask waits for the decision dec_1, since ")
	require.Contains(t, text, ": `mind decision show dec_1`", "denied callers are told its id")
	require.JSONEq(t, waiting, clitest.Done(t, "execution", "show", "exec_1", "-o", "json"))
}

func TestExecution_steer(t *testing.T) {
	g := clitest.NewGateway(t)
	for want, args := range map[string][]string{
		`cancel {"force":true,"reason":"bad"}`:                         {"cancel", "exec_1", "--force", "--reason", "bad"},
		`pause {"reason":"later"}`:                                     {"pause", "exec_1", "--reason", "later"},
		`resume {}`:                                                    {"resume", "exec_1"},
		`signal {"data":{"a":1},"name":"go now"}`:                      {"signal", "exec_1", "go now", "--data", `{"a":1}`},
		`retry {"bindings":{"lr":0.01,"name":"\"x\""},"from":"train"}`: {"retry", "exec_1", "--from", "train", "--set", "lr=0.01", "--set", `name="\"x\""`},
		`retry {}`: {"retry", "exec_1"},
	} {
		verb, body, _ := strings.Cut(want, " ")
		g.On("POST "+prefix+"/executions/exec_1/"+verb, clitest.Answer(200, running))
		require.Equal(t, "exec_1 is running\n", clitest.Done(t, append([]string{"execution"}, args...)...))
		require.Equal(t, "POST "+prefix+"/executions/exec_1/"+verb, last(g.Asked))
		require.JSONEq(t, body, last(g.Bodies))
	}
}

// happened is an event of exec_1 at a second.
func happened(second int, kind, payload string) string {
	return fmt.Sprintf(`{"type":%q,"core_id":"core_1","timestamp":"2026-01-02T03:04:%02dZ","payload":{"execution_id":"exec_1"%s}}`, kind, second, payload)
}

const block = "scaicore.runtime.block."

func TestWatch_aLineForEachStep(t *testing.T) {
	g := clitest.NewGateway(t)
	begun := []string{
		happened(2, block+"exited", `,"step":"train","result_binding_value":{"loss":0.3}`),
		happened(1, block+"entered", `,"step":"train","block_kind":"compute","attempt":2`),
		happened(1, block+"retrying", `,"step":"train","error":{"code":"OOM","message":"no\u001b memory"}`),
		happened(0, "scaicore.runtime.invocation.started", `,"input":{"n":1}`),
	}
	over := append([]string{
		happened(5, "scaicore.runtime.invocation.completed", `,"output":true`),
		happened(4, "model.approved", `,"step":"call/end","data":{"a":1}`),
	}, begun...)
	events := func(all []string) http.HandlerFunc {
		return clitest.Answer(200, `{"events":[`+strings.Join(all, ",")+`],"next_cursor":""}`)
	}
	g.On(get, inTurn(clitest.Answer(200, running), clitest.Answer(200, waiting), clitest.Answer(200, waiting), clitest.Answer(200, completed)))
	g.On("GET "+prefix+"/events", inTurn(events(begun[3:]), events(begun), clitest.Refuse(503, "UNAVAILABLE", "no leader"), events(over)))
	g.On("GET "+prefix+"/checkpoints/dec_1", clitest.Answer(200, asked))
	text := clitest.Squeeze(clitest.Done(t, "execution", "watch", "exec_1"))
	require.Regexp(t, `^\S+ begins with {"n":1}
\S+ train: failed, and is tried again: OOM: no\x{FFFD} memory
\S+ train: compute, attempt 2
\S+ train: done = {"loss":0.3}
ask waits for the decision dec_1 of role:reviewer \(Ship it\?\), since .*, until .*: .mind decision resolve dec_1 ship\|'keep it'.
\S+ call/end: emits model.approved {"a":1}
\S+ is completed = true$`, text)

	g.On(get, clitest.Answer(200, failed))
	stdout, stderr, code := clitest.Run(t, "execution", "watch", "exec_1", "-o", "json")
	require.Equal(t, 1, code)
	require.Equal(t, 6, strings.Count(stdout, "\n"))
	require.True(t, strings.HasPrefix(stdout, over[5]+"\n"), stdout)
	require.Contains(t, stderr, "exec_1 failed at the step train: OOM")
}

func TestEvents_eachOnceAndInOrder(t *testing.T) {
	g := clitest.NewGateway(t)
	all := []string{happened(1, "b", ""), happened(1, "a", ""), happened(0, "a", "")}
	g.On("GET "+prefix+"/cores/x", inTurn(clitest.Answer(200, nightly), clitest.Answer(200, nightly), clitest.Refuse(404, "NOT_FOUND", "there is no Core x")))
	g.On("GET "+prefix+"/events", func(w http.ResponseWriter, r *http.Request) {
		clitest.Answer(200, `{"events":[`+strings.Join(all, ",")+`],"next_cursor":""}`)(w, r)
		all = append([]string{happened(len(all), "c", ""), happened(len(all), "c", "")}, all...)
	})
	stdout, stderr, code := clitest.Run(t, "core", "events", "x", "--follow")
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stderr, "there is no Core x")
	var kinds []string
	for line := range strings.Lines(stdout) {
		require.Contains(t, line, "  exec_1  gets the event ")
		kinds = append(kinds, strings.TrimSpace(line)[len(strings.TrimSpace(line))-1:])
	}
	require.Equal(t, "a a b c c c c", strings.Join(kinds, " "))
}

func TestDecision(t *testing.T) {
	g := clitest.NewGateway(t)
	query := ""
	g.On("GET "+prefix+"/checkpoints", func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		clitest.Answer(200, `{"checkpoints":[`+asked+`],"next_cursor":""}`)(w, r)
	})
	text := clitest.Squeeze(clitest.Done(t, "decision", "list", "--status", "all", "--core", "x"))
	require.Equal(t, "core_id=x&limit=50&status=all", query)
	require.Regexp(t, `dec_1 nightly exec_1 pending high role:reviewer .* ship\|keep it Ship it\?$`, text)

	g.On("GET "+prefix+"/checkpoints/dec_1", clitest.Answer(200, asked))
	text = clitest.Squeeze(clitest.Done(t, "decision", "show", "dec_1"))
	for _, line := range []string{
		"question Ship it?\n", "option ship: Ship it\noption keep it\n", "quorum 2 of 3 have to agree\n", "vote ann ship: fine\n", `context {"score":0.5}` + "\n",
		"\nnotified 2026-01-02", "\nnotify error it answered 500\n", ", then: escalate user:bob\n", "answer `mind decision resolve dec_1 ship|'keep it'`",
	} {
		require.Contains(t, text, line)
	}
	resolve := "POST " + prefix + "/checkpoints/dec_1/resolve"
	g.On(resolve, clitest.Answer(200, asked))
	require.Equal(t, "dec_1 is pending: 1 of 3 have answered, and 2 have to agree\n",
		clitest.Done(t, "decision", "resolve", "dec_1", "ship", "--comment", "fine", "--subject", "sha256:1"))
	require.JSONEq(t, `{"resolution":"ship","comment":"fine","subject_digest":"sha256:1"}`, last(g.Bodies))
	g.On(resolve, clitest.Answer(200, `{"id":"dec_1","status":"resolved","resolution":"","schema":{},"data":{"lr":1}}`))
	require.Equal(t, "dec_1 is resolved: {\"lr\":1}\n", clitest.Done(t, "decision", "resolve", "dec_1", "--data", `{"lr":1}`))
	require.JSONEq(t, `{"data":{"lr":1}}`, last(g.Bodies))
	g.On(resolve, clitest.Refuse(403, "PERMISSION_DENIED", "only user:ann may answer the decision dec_1: have it reassigned"))
	require.Equal(t, "mind: only user:ann may answer the decision dec_1: have it reassigned\n", clitest.Fails(t, "decision", "resolve", "dec_1", "ship"))

	g.On("POST "+prefix+"/checkpoints/dec_1/cancel", clitest.Answer(200, `{"id":"dec_1","status":"cancelled"}`))
	require.Equal(t, "dec_1 is cancelled\n", clitest.Done(t, "decision", "cancel", "dec_1", "--reason", "no"))
	require.JSONEq(t, `{"reason":"no"}`, last(g.Bodies))
	g.On("POST "+prefix+"/checkpoints/dec_1/reassign", clitest.Answer(200, asked))
	require.Equal(t, "dec_1 is pending, and asks role:reviewer\n", clitest.Done(t, "decision", "reassign", "dec_1", "role:reviewer"))
	require.JSONEq(t, `{"assignee":"role:reviewer"}`, last(g.Bodies))
}
