package gateway_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/methods"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// The document and docs/use/rest.md describe every route, with its parameters and answers.
func TestOpenAPI_holdsCodeAndDocsTogether(t *testing.T) {
	page, err := os.ReadFile("../docs/use/rest.md")
	require.NoError(t, err)
	all, document := new(gateway.Server).Routes()
	require.Len(t, document, len(all))
	for i, r := range all {
		d := document[i]
		require.NotEmpty(t, d.Summary, r.Name)
		if r.Method == "POST" && !r.Open {
			require.True(t, d.In != nil || d.InSchema != nil, "%s takes no body", r.Name)
		}
		require.True(t, r.Stream || d.Out != nil || d.OutSchema != nil || d.Media != "" || r.Path == "/metrics" || d.Code == 204 || d.Code == 303, "%s answers nothing", r.Name)
		path := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(r.Path, rest.Prefix), "/cluster"), "/api")
		require.True(t, strings.Contains(string(page), path), "docs/use/rest.md does not speak of %s", r.Name)
	}
}

// Every route that the protos declare is served, once, and every endpoint serves one.
func TestEndpoints_serveWhatTheProtosDeclare(t *testing.T) {
	type key struct{ rpc, variant string }
	declared, serving := map[key]bool{}, map[key]bool{}
	for m := range methods.All() {
		for _, r := range m.Routes {
			declared[key{m.Name, r.Variant}] = true
		}
	}
	for _, e := range new(gateway.Server).Endpoints() {
		require.True(t, e.Serve != nil || e.RPC != "" && !methods.Of(e.RPC).Streams, "%s %s: nothing answers", e.RPC, e.Own.Path)
		require.NotEqual(t, e.RPC == "", e.Own.Path == "", "either a method's or the gateway's own: %s %s", e.RPC, e.Own.Path)
		require.False(t, e.Open && e.RPC != "", "%s: what coordinators are asked for needs a token", e.RPC)
		if e.RPC != "" {
			require.False(t, serving[key{e.RPC, e.Variant}], "%s is there twice", e.RPC)
			serving[key{e.RPC, e.Variant}] = true
		}
	}
	require.Equal(t, declared, serving)
	all, _ := new(gateway.Server).Routes()
	for _, r := range all {
		require.NotNil(t, r.Serve, r.Name)
		require.True(t, r.Field == "" || strings.Contains(r.Path, "{"), "%s: no segment says %s", r.Name, r.Field)
	}
}

func TestOpenAPI_refersOnlyToExistingSchemas(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	a := g.Do("GET", "/openapi.json", "", "Authorization", "")
	require.Equal(t, 200, a.Code)
	var doc struct {
		OpenAPI    string `json:"openapi"`
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.Body), &doc))
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.Contains(t, doc.Paths, rest.Prefix+"/jobs")
	rest := a.Body
	refs, ids := 0, map[string]bool{}
	for {
		_, after, ok := strings.Cut(rest, `"#/components/schemas/`)
		if !ok {
			break
		}
		name, more, _ := strings.Cut(after, `"`)
		require.Contains(t, doc.Components.Schemas, name)
		rest = more
		refs++
	}
	require.Greater(t, refs, 100)
	for path, operations := range doc.Paths {
		for method, raw := range operations {
			var op struct {
				ID string `json:"operationId"`
			}
			require.NoError(t, json.Unmarshal(raw, &op))
			require.False(t, ids[op.ID], "%s %s: %s twice", method, path, op.ID)
			ids[op.ID] = true
		}
	}
	for name, schema := range doc.Components.Schemas {
		if strings.Contains(name, "Token") {
			require.NotContains(t, string(schema), `"digest"`, "nobody can set or see the digest of a token: %s", name)
		}
	}
}
