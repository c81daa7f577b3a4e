package gateway

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The document, the routes and docs/use/rest.md say the same.
func TestOpenAPI_holdsCodeAndDocsTogether(t *testing.T) {
	described := descriptions()
	page, err := os.ReadFile("../docs/use/rest.md")
	require.NoError(t, err)
	routes := table()
	for _, r := range routes {
		key := r.method + " " + strings.TrimPrefix(r.path, prefix)
		d, ok := described[key]
		require.True(t, ok, "%s has no description", key)
		require.NotEmpty(t, d.summary, key)
		if r.method == "POST" && !r.open {
			require.True(t, d.in != nil || d.inSchema != nil, "%s takes no body", key)
		}
		require.True(t, r.stream || d.out != nil || d.outSchema != nil || r.path == "/metrics", "%s answers nothing", key)
		path := strings.TrimPrefix(strings.TrimPrefix(r.path, prefix), "/cluster")
		require.True(t, strings.Contains(string(page), path), "docs/use/rest.md does not speak of %s", key)
		delete(described, key)
	}
	require.Empty(t, described, "described and not served")
}

func TestOpenAPI_refersOnlyToWhatIsThere(t *testing.T) {
	g := newGate(t, testConfig(newScripted(t)))
	a := g.do("GET", "/openapi.json", "", "Authorization", "")
	require.Equal(t, 200, a.code)
	var doc struct {
		OpenAPI    string `json:"openapi"`
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &doc))
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.Contains(t, doc.Paths, prefix+"/jobs")
	rest := a.body
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
