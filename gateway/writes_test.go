package gateway

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway/auth"
)

// ownWrites are the writes that affect only the caller's tenant.
var ownWrites = []string{
	"PUT /schedules/{name}", "DELETE /schedules/{name}", "POST /schedules/{name}/pause", "POST /schedules/{name}/resume", "POST /schedules/{name}/run",
	"POST /jobs", "POST /jobs/batch", "POST /jobs/{id}/cancel", "POST /jobs/{id}/pause", "POST /jobs/{id}/resume", "POST /jobs/{id}/retry",
	"DELETE /checkpoints/{id}", "POST /checkpoints/{id}/pin", "POST /checkpoints/{id}/unpin", "POST /evaluations", "POST /data/validate", "POST /v1/stream-tickets",
}

// beyondTheTenant reads, from the documentation, the writes that affect more than one tenant, and their permissions.
func beyondTheTenant(t *testing.T) map[string]string {
	text, err := os.ReadFile("../docs/operate/security.md")
	require.NoError(t, err)
	_, rows, found := strings.Cut(string(text), "| write | permission |\n|---|---|\n")
	require.True(t, found, "the table of writes is gone")
	code := regexp.MustCompile("`([^`]+)`")
	writes := map[string]string{}
	for line := range strings.Lines(rows) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		for _, write := range code.FindAllStringSubmatch(cells[1], -1) {
			writes[write[1]] = code.FindStringSubmatch(cells[2])[1]
		}
	}
	require.Greater(t, len(writes), 10)
	return writes
}

// Every write either affects only the caller's tenant, or is documented with its permission. A caller with every other
// permission is refused before a coordinator is called.
func TestWrites_beyondTheTenant(t *testing.T) {
	c := newScripted(t)
	config := testConfig(c)
	every := append([]string{auth.PermissionOperator}, auth.AllPermissions...)
	for _, p := range every {
		rest := slices.DeleteFunc(slices.Clone(every), func(other string) bool { return other == p })
		config.Tokens = append(config.Tokens, StaticToken{Token: "all-but-" + p, Tenant: "acme", User: "ann", Permissions: rest})
	}
	g := newGate(t, config)
	documented := beyondTheTenant(t)
	for _, r := range allRoutes() {
		write := r.Method + " " + strings.TrimPrefix(r.Path, prefix)
		if r.Method == "GET" || slices.Contains(ownWrites, write) {
			require.NotContains(t, documented, write)
			continue
		}
		permission := documented[write]
		delete(documented, write)
		require.Equal(t, []string{permission}, r.anyOf, "%s: the permission that docs/operate/security.md says", write)
		path := strings.NewReplacer("{id}", "x", "{name}", "x", "{framework}", "CUSTOM").Replace(r.Path)
		a := g.do(r.Method, path, "{}", "Authorization", "Bearer all-but-"+permission)
		require.Equal(t, 403, a.code, write)
		require.Equal(t, "AUTHZ_PERMISSION_DENIED", a.Error.Code, write)
		require.Contains(t, a.Error.Message, permission, write)
	}
	require.Empty(t, documented, "these are no routes")
	require.Empty(t, c.seen(), "nothing was asked of a coordinator")
}
