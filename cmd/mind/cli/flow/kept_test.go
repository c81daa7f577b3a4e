package flow_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

const (
	aFlow = `{"id":"flow_1","name":"Ticket triage","description":"picks a team","owner_id":"ann","version":"0.1.3","level":"admin",
		"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z","content":{"id":"flow_1","version":"0.1.3","nodes":[]}}`
	twice = `{"id":"flow_2","name":"Twice"},{"id":"flow_3","name":"twice"}`
)

func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// bare makes an answer that has no envelope.
func bare(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text))
	}
}

func TestKept_thereAndBack(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /v1/flows", bare(200, `{"items":[`+aFlow+`,`+twice+`],"total":7}`))
	g.On("GET /v1/flows/flow_1", bare(200, aFlow))
	g.On("POST /v1/flows", bare(201, aFlow))
	var match string
	g.On("PUT /v1/flows/flow_1", func(w http.ResponseWriter, r *http.Request) {
		match = r.Header.Get("If-Match")
		bare(200, `{"name":"Ticket triage","version":"0.1.4"}`)(w, r)
	})
	stdout, stderr, code := clitest.Run(t, "flow", "list", "--search", "tri")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "Ticket triage")
	require.Equal(t, "the first 3 of 7; more with --limit, up to 1000\n", stderr)
	require.Contains(t, clitest.Done(t, "scaiflow", "show", "ticket-triage"), "you may")

	path := filepath.Join(t.TempDir(), "t.json")
	require.Equal(t, path+"\n", clitest.Done(t, "flow", "show", "Ticket triage", "--out", path))
	require.Equal(t, "Ticket triage is at version 0.1.4\n", clitest.Done(t, "flow", "save", "flow_1", "-f", path))
	require.Equal(t, `"0.1.3"`, match, "the version in the file")
	require.JSONEq(t, `{"content":{"id":"flow_1","version":"0.1.3","nodes":[]}}`, g.Bodies[len(g.Bodies)-1])
	clitest.Done(t, "flow", "save", "flow_1", "-f", path, "--based-on", "0.1.2")
	require.Equal(t, `"0.1.2"`, match)

	drawing := fileOf(t, "d.json", `{"name":"D","nodes":[]}`)
	require.Equal(t, "flow_1\n", clitest.Done(t, "flow", "create", "-f", drawing, "--description", "x"))
	require.JSONEq(t, `{"name":"D","description":"x","content":{"name":"D","nodes":[]}}`, g.Bodies[len(g.Bodies)-1])
	unnamed, program := fileOf(t, "e.json", `{"nodes":[]}`), fileOf(t, "p.json", `{"flows":[]}`)
	for says, args := range map[string][]string{
		`"twice" is the name of 2 flows: give an id: flow_2, flow_3`:                   {"flow", "show", "twice"},
		"there is no flow \"nothing\": `mind flow list` lists those that you may view": {"flow", "show", "nothing"},
		"say with --based-on which version the content was made from":                  {"flow", "save", "flow_1", "-f", drawing},
		"is no drawing: it has no nodes; `mind core create -f ":                        {"flow", "create", "-f", program},
		"--limit 0: it must be 1 or more":                                              {"flow", "list", "--limit", "0"},
	} {
		require.Contains(t, failing(t, args...), says)
	}
	require.Contains(t, failing(t, "flow", "create", "-f", unnamed), "give one with --name")
}

func failing(t *testing.T, args ...string) string {
	_, stderr, code := clitest.Run(t, args...)
	require.NotZero(t, code)
	return stderr
}

func TestKept_saysWhatToDo(t *testing.T) {
	g := clitest.NewGateway(t)
	path := fileOf(t, "t.json", `{"version":"0.1.2","nodes":[]}`)
	g.On("PUT /v1/flows/flow_1", bare(409, `{"detail":{"error":"version_conflict","message":"the flow is at version 0.1.3","fix":"read the flow","current_version":"0.1.3"}}`))
	require.Equal(t, "mind: the flow is at version 0.1.3: read the flow\n", clitest.Fails(t, "flow", "save", "flow_1", "-f", path))
	g.On("POST /v1/flows/flow_1/deploy", bare(400, `{"detail":{"error":"compile_error","message":"m","fix":"f","diagnostics":[{"severity":"error","code":"NO_ENTRY","message":"flow has no entry-point node","node_id":null},{"severity":"error","code":"X","message":"y","node_id":"n"}]}}`))
	require.Equal(t, "mind: error: flow has no entry-point node [NO_ENTRY]; error: n: y [X]\n", clitest.Fails(t, "flow", "deploy", "flow_1"))
	g.On("GET /v1/flows/flow_1/versions", bare(404, `{"detail":{"error":"not_found","message":"there is no flow \"flow_1\""}}`))
	require.Contains(t, clitest.Fails(t, "flow", "versions", "flow_1"), "`mind flow list` lists those that you may view")
	g.On("DELETE /v1/flows/flow_1", bare(403, `{"detail":{"error":"permission_denied","message":"it takes the right \"admin\" on the flow \"x\", and you have \"view\": ask its owner for it"}}`))
	require.Equal(t, "mind: it takes the right \"admin\" on the flow \"x\", and you have \"view\": ask its owner for it\n", clitest.Fails(t, "flow", "delete", "flow_1"))
}

func TestKept_deploysAndGrants(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /v1/flows/flow_1/deploy", bare(200, `{"core_slug":"triage","core_version":2,"warnings":["w"]}`))
	stdout, stderr, code := clitest.Run(t, "flow", "deploy", "flow_1", "--version", "0.1.0", "--no-start", "--publish-as-model")
	require.Zero(t, code, stderr)
	require.Equal(t, []string{"triage\n", "warning: w\nit is version 2 of the Core; `mind core invoke triage` calls it\n"}, []string{stdout, stderr})
	require.JSONEq(t, `{"start":false,"version":"0.1.0","publish_as_model":true}`, g.Bodies[len(g.Bodies)-1])
	g.On("POST /v1/flows/flow_1/deploy", bare(200, `{"core_id":"core_1","core_slug":"triage","core_version":2}`))
	g.On("GET /v1/modules/scaicore/cores/core_1", clitest.Answer(200, `{"status":"running"}`))
	require.Equal(t, "triage\n", clitest.Done(t, "flow", "deploy", "flow_1"))
	require.JSONEq(t, `{"start":true}`, g.Bodies[len(g.Bodies)-2])
	g.On("GET /v1/modules/scaicore/cores/core_1", clitest.Answer(200, `{"status":"error","error":"why"}`))
	require.Equal(t, "mind: the flow was deployed, and the Core triage does not run: it is in error: why\n", clitest.Fails(t, "flow", "deploy", "flow_1"))
	g.On("GET /v1/flows/flow_1/deployments", bare(200, `{"items":[{"deployment_id":"dep_1","version":"0.1.0","core_id":"core_1","core_slug":"","core_version":1,"deployed_by":"ann","deployed_at":"2026-01-02T03:04:05Z"}]}`))
	require.Contains(t, clitest.Done(t, "flow", "deployments", "flow_1"), "core_1 (deleted)")
	g.On("GET /v1/flows/flow_1/versions", bare(200, `{"items":[{"version":"0.1.0","size_bytes":7,"created_by":"ann","sha256":"abcdef0123456789"}]}`))
	require.Contains(t, clitest.Done(t, "flow", "versions", "flow_1"), "abcdef012345")
	g.On("POST /v1/flows/flow_1/run-tests", bare(200, `{"passed":1,"failed":1,"results":[{"name":"a","passed":true},{"name":"b","passed":false,"message":"m"}]}`))
	stdout, stderr, code = clitest.Run(t, "flow", "test", "flow_1")
	require.Equal(t, []any{1, "ok    a\nFAIL  b: m\n", "mind: 1 of 2 tests failed\n"}, []any{code, stdout, stderr})

	g.On("POST /v1/flows/flow_1/acls", bare(201, `{"id":"acl_1","level":"edit"}`))
	require.Equal(t, "acl_1: the group ml has the right edit; `mind flow acl revoke flow_1 acl_1` takes it away\n", clitest.Done(t, "flow", "acl", "grant", "flow_1", "ml", "edit", "--group"))
	require.JSONEq(t, `{"principal_type":"group","principal_id":"ml","level":"edit"}`, g.Bodies[len(g.Bodies)-1])
	g.On("GET /v1/flows/flow_1/acls", bare(200, `[{"id":"acl_1","principal_type":"group","principal_id":"ml","level":"edit","granted_by":"ann"}]`))
	require.Contains(t, clitest.Done(t, "flow", "acl", "list", "flow_1"), "acl_1")
	g.On("PATCH /v1/flows/flow_1/acls/acl_1", bare(200, `{"id":"acl_1","principal_type":"group","principal_id":"ml","level":"view"}`))
	require.Equal(t, "acl_1: the group ml has the right view\n", clitest.Done(t, "flow", "acl", "change", "flow_1", "acl_1", "view"))
	require.JSONEq(t, `{"level":"view"}`, g.Bodies[len(g.Bodies)-1])
	g.On("DELETE /v1/flows/flow_1/acls/acl_1", bare(204, ""))
	require.Equal(t, "acl_1 revoked\n", clitest.Done(t, "flow", "acl", "revoke", "flow_1", "acl_1"))
	g.On("DELETE /v1/flows/flow_1", bare(204, ""))
	require.Equal(t, "flow_1 deleted\n", clitest.Done(t, "flow", "delete", "flow_1"))
}
