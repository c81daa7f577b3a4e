package cores_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

const (
	prefix  = "/v1/modules/scaicore"
	nightly = `{"id":"core_1","name":"Nightly run","slug":"nightly-run","status":"running","version":2,"runtime_mode":"event_driven","checkpoint_mode":"auto",
		"environment_names":["A","HF_TOKEN"],"notify_url":"https://h.example","source_digest":"sha256:12","source":{"flows":[{"name":"main"},{"name":"other"}]},"user_id":"ann","created_at":"2026-01-02T03:04:05Z"}`
)

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// inTurn answers each call with the next answer, and the last one again and again.
func inTurn(answers ...http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		now := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		now(w, r)
	}
}

func last(all []string) string { return all[len(all)-1] }

func TestCreate_sendsTheProgramAndTheEnvironment(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST "+prefix+"/cores", clitest.Answer(201, nightly))
	yaml := file(t, "nightly.yaml", "schema_version: \"0.1\"\nname: Nightly run\nflows: [{name: main, body: []}]\n")
	secret := file(t, "token", "canary-1\n")
	stdout, stderr, code := clitest.RunAsked(t, "canary-2\r\n", "core", "create", "-f", yaml, "--env", "A=b=c", "--secret", "HF=@"+secret, "--secret", "S3", "--mode", "api", "--notify-url", "https://h.example")
	require.Zero(t, code, stderr)
	require.Equal(t, "nightly-run\n", stdout)
	require.Equal(t, "`mind core start nightly-run` starts it\n", stderr)
	require.JSONEq(t, `{"name":"Nightly run","runtime_mode":"api","notify_url":"https://h.example","source":{"schema_version":"0.1","name":"Nightly run","flows":[{"name":"main","body":[]}]},
		"environment":{"A":"b=c","HF":{"type":"secret","value":"canary-1"},"S3":{"type":"secret","value":"canary-2"}}}`, last(g.Bodies))

	stdout, stderr, code = clitest.RunAsked(t, `{"flows":[]}`, "core", "create", "-f", "-", "--name", "x", "-o", "json")
	require.Zero(t, code, stderr)
	require.JSONEq(t, nightly, stdout)
	require.JSONEq(t, `{"name":"x","source":{"flows":[]}}`, last(g.Bodies))

	const drawing = `{"name":"Greet","nodes":[],"edges":[]}`
	clitest.Done(t, "core", "create", "-f", file(t, "greet.flow.json", drawing))
	require.JSONEq(t, `{"name":"Greet","source":`+drawing+`}`, last(g.Bodies), "the gateway compiles drawings")
	clitest.Done(t, "core", "create", "-f", file(t, "greet.yaml", "core: {name: greet, flows: []}\n"))
	require.JSONEq(t, `{"name":"greet","source":{"core":{"name":"greet","flows":[]}}}`, last(g.Bodies))

	clitest.Done(t, "core", "create", "-f", file(t, "of-the-file.json", `{"flows":[]}`))
	require.Contains(t, last(g.Bodies), `"name":"of-the-file"`)
}

func TestCreate_startsAndSaysWhyNot(t *testing.T) {
	g := clitest.NewGateway(t)
	program := file(t, "p.json", `{"name":"p"}`)
	g.On("POST "+prefix+"/cores", clitest.Answer(201, nightly))
	g.On("POST "+prefix+"/cores/core_1/start", clitest.Answer(200, nightly))
	g.On("GET "+prefix+"/cores/core_1", inTurn(
		clitest.Answer(200, strings.Replace(nightly, `"running"`, `"starting"`, 1)), clitest.Answer(200, nightly)))
	stdout, stderr, code := clitest.Run(t, "core", "create", "-f", program, "--start")
	require.Zero(t, code, stderr)
	require.Equal(t, "nightly-run\n", stdout)
	require.Empty(t, stderr)

	g.On("GET "+prefix+"/cores/core_1", clitest.Answer(200, strings.Replace(nightly, `"status":"running"`, `"status":"error","error":"it has no program"`, 1)))
	require.Equal(t, "mind: the Core nightly-run was made, and does not run: nightly-run is in error: it has no program\n", clitest.Fails(t, "core", "create", "-f", program, "--start"))

	g.On("POST "+prefix+"/cores", clitest.Refuse(400, "INVALID_ARGUMENT", "INVALID_SOURCE_IR: block w: while loop missing max_iterations"))
	require.Equal(t, "mind: INVALID_SOURCE_IR: block w: while loop missing max_iterations: `mind flow validate "+program+"` lists what is wrong\n",
		clitest.Fails(t, "core", "create", "-f", program))
}

func TestMisuse(t *testing.T) {
	g := clitest.NewGateway(t)
	program := file(t, "p.json", `{"name":"p"}`)
	for says, args := range map[string][]string{
		"mind core create needs --file; for example: ":                      {"core", "create"},
		"--secret A: write NAME=@FILE":                                      {"core", "create", "-f", program, "--secret", "A=canary"},
		"--secret B: stdin is read already: write B=@FILE":                  {"core", "create", "-f", program, "--secret", "A", "--secret", "B"},
		"--secret A: there is no value":                                     {"core", "create", "-f", program, "--secret", "A=@" + file(t, "empty", "\n")},
		"the environment has A twice":                                       {"core", "create", "-f", program, "--env", "A=1", "--env", "A=2"},
		"--env A: write NAME=VALUE":                                         {"core", "update", "x", "--env", "A"},
		"nothing to change: give -f PROGRAM":                                {"core", "update", "x"},
		"--input {: it is no JSON":                                          {"core", "invoke", "x", "--input", "{"},
		"--wait -1s: it must not be negative":                               {"core", "invoke", "x", "--wait", "-1s"},
		"--set lr: write NAME=JSON":                                         {"execution", "retry", "exec_1", "--set", "lr"},
		"--set lr fast: it is no JSON: text needs quotes":                   {"execution", "retry", "exec_1", "--set", "lr=fast"},
		"give the answer: an OPTION, or --data JSON":                        {"decision", "resolve", "dec_1"},
		"write the assignee as user:ID, group:ID or role:NAME":              {"decision", "reassign", "dec_1", "ann"},
		"mind execution signal needs EXECUTION EVENT; for example: mind ex": {"execution", "signal"},
		"--limit 0: it must be 1 or more":                                   {"decision", "list", "--limit", "0"},
	} {
		stdout, stderr, code := clitest.RunAsked(t, "typed\n", args...)
		require.Equal(t, 2, code, "%v: %s", args, stderr)
		require.Empty(t, stdout)
		require.Contains(t, stderr, says)
		require.NotContains(t, stderr, "canary")
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
	require.Empty(t, g.Asked, "nothing is sent")
	require.Contains(t, clitest.Fails(t, "core", "create", "-f", file(t, "bad.json", `{`)), "`mind flow validate ")
}

func TestUpdate_changesWhatIsGiven(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("PUT "+prefix+"/cores/nightly-run", clitest.Answer(200, nightly))
	require.Equal(t, "nightly-run is running, with version 2 of its program\n",
		clitest.Done(t, "core", "update", "nightly-run", "-f", file(t, "p.json", `{"name":"p"}`), "--if-revision", "7"))
	require.JSONEq(t, `{"source":{"name":"p"},"if_revision":7}`, last(g.Bodies), "the name stays")
	require.NotEmpty(t, last(g.Keys))
	clitest.Done(t, "core", "update", "nightly-run", "--name", "Other", "--checkpoint-mode", "routed")
	require.JSONEq(t, `{"name":"Other","checkpoint_mode":"routed"}`, last(g.Bodies))
}

func TestList_readsAllPages(t *testing.T) {
	g := clitest.NewGateway(t)
	var asked []string
	page := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.RawQuery)
			clitest.Answer(200, text)(w, r)
		}
	}
	g.On("GET "+prefix+"/cores", inTurn(
		page(`{"cores":[{"slug":"a","name":"A","status":"running","version":1,"runtime_mode":"api"}],"next_cursor":"a"}`),
		page(`{"cores":[{"slug":"b","name":"B","status":"error","version":3,"runtime_mode":"api","error":"no program"}],"next_cursor":""}`)))
	require.Equal(t, "CORE NAME STATUS VERSION MODE AGE ERROR\na A running 1 api\nb B error 3 api no program", clitest.Squeeze(clitest.Done(t, "core", "list")))
	require.Equal(t, []string{"limit=50", "cursor=a&limit=49"}, asked)

	g.On("GET "+prefix+"/cores", page(`{"cores":[{"slug":"a"}],"next_cursor":"a"}`))
	stdout, stderr, code := clitest.Run(t, "core", "list", "--limit", "1", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"cores":[{"slug":"a"}]}`, stdout)
	require.Equal(t, "the first 1; more with --limit\n", stderr)
}

func TestShow(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET "+prefix+"/cores/nightly-run", clitest.Answer(200, nightly))
	text := clitest.Squeeze(clitest.Done(t, "core", "show", "nightly-run"))
	for _, line := range []string{"core nightly-run\n", "program version 2, sha256:12\n", "flows main, other\n", "notifies https://h.example\n", "environment A, HF_TOKEN\n"} {
		require.Contains(t, text, line)
	}
	require.JSONEq(t, nightly, clitest.Done(t, "core", "show", "nightly-run", "-o", "json"))
	g.On("GET "+prefix+"/cores/other", clitest.Refuse(404, "NOT_FOUND", "there is no Core other"))
	require.Equal(t, "mind: there is no Core other: `mind core list` lists those of your tenant\n", clitest.Fails(t, "core", "show", "other"))
}

func TestControl_waits(t *testing.T) {
	g := clitest.NewGateway(t)
	with := func(status string) http.HandlerFunc {
		return clitest.Answer(200, strings.Replace(nightly, `"status":"running"`, `"status":"`+status+`"`, 1))
	}
	for verb, c := range map[string][2]string{"start": {"starting", "running"}, "stop": {"stopping", "stopped"}, "restart": {"restarting", "running"}, "pause": {"paused", "paused"}, "resume": {"running", "running"}} {
		g.On("POST "+prefix+"/cores/nightly-run/"+verb, with(c[0]))
		g.On("GET "+prefix+"/cores/core_1", inTurn(with(c[0]), with(c[1])))
		require.Equal(t, "nightly-run is "+c[0]+"\n", clitest.Done(t, "core", verb, "nightly-run"))
		require.Equal(t, "nightly-run is "+c[1]+"\n", clitest.Done(t, "core", verb, "nightly-run", "--wait"))
	}
	g.On("GET "+prefix+"/cores/core_1", inTurn(with("starting"), with("error")))
	require.Contains(t, clitest.Fails(t, "core", "start", "nightly-run", "--wait"), "nightly-run is in error")
}

func TestDelete_saysHow(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("DELETE "+prefix+"/cores/x", inTurn(
		clitest.Answer(200, `{"core_id":"x"}`),
		clitest.Refuse(409, "FAILED_PRECONDITION", `the Core "x" cannot be deleted: it is running`),
		clitest.Refuse(409, "FAILED_PRECONDITION", `the Core "x" has executions that are not over, such as exec_1: cancel them first`)))
	require.Equal(t, "x deleted\n", clitest.Done(t, "core", "delete", "x"))
	require.Contains(t, clitest.Fails(t, "core", "delete", "x"), ": `mind core stop x --wait` stops it\n")
	require.Contains(t, clitest.Fails(t, "core", "delete", "x"), ": `mind execution list --core x` lists them\n")
}

func TestComplete(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET "+prefix+"/cores", clitest.Answer(200, `{"cores":[{"slug":"nightly","status":"running"}]}`))
	g.On("GET "+prefix+"/executions", clitest.Answer(200, `{"executions":[{"execution_id":"exec_1","status":"waiting"}]}`))
	g.On("GET "+prefix+"/checkpoints", clitest.Answer(200, `{"checkpoints":[{"id":"dec_1","prompt":"Ship it?"}]}`))
	g.On("GET "+prefix+"/checkpoints/dec_1", clitest.Answer(200, `{"id":"dec_1","options":[{"id":"ship","label":"Ship it"}]}`))
	for _, c := range []struct {
		want string
		args []string
	}{
		{"nightly\trunning\n", []string{"core", "invoke", ""}},
		{"nightly\trunning\n", []string{"execution", "list", "--core", ""}},
		{"exec_1\twaiting\n", []string{"execution", "watch", ""}},
		{"dec_1\tShip it?\n", []string{"decision", "resolve", ""}},
		{"ship\tShip it\n", []string{"decision", "resolve", "dec_1", ""}},
		{"routed\n", []string{"core", "create", "--checkpoint-mode", ""}},
		{"scaicore:checkpoint_resolve\n", []string{"token", "create", "--permission", ""}},
	} {
		stdout, _, _ := clitest.Run(t, append([]string{"__complete"}, c.args...)...)
		require.Contains(t, stdout, c.want, "%v", c.args)
	}
	stdout, _, _ := clitest.Run(t, "__complete", "decision", "cancel", "dec_1", "")
	require.NotContains(t, stdout, "ship", "it takes no answer")
}

func TestToken_grantsPermissionsOfCores(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /tokens", clitest.Answer(201, `{"token":"sgk_x","token_id":"tok_1"}`))
	clitest.Done(t, "token", "create", "--permission", "scaicore:view,scaicore:checkpoint_resolve", "--permission", "view")
	var body map[string]any
	require.NoError(t, json.Unmarshal([]byte(last(g.Bodies)), &body))
	require.Equal(t, []any{"scaicore:view", "scaicore:checkpoint_resolve", "scaimind:view"}, body["permissions"])
}
