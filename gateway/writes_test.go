package gateway_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// The forms in which docs/use/rest.md says what a route is and which permission it takes: a row of a table, a heading, and the
// beginning of a paragraph.
var (
	pageRow       = regexp.MustCompile("(?m)^\\| ([A-Z, ]+) ((?:`/[^`]+`(?:, )?)+)(?: → \\d+)? \\| ([^|]+) \\|")
	pageHeading   = regexp.MustCompile(`(?m)^###.* ?(GET|POST|PUT|DELETE) (/\S+) \(([^)]+)\)`)
	pageParagraph = regexp.MustCompile("(?m)^(?:- )?\\*\\*(GET|POST|PUT|DELETE) `(/[^`?]+)[^`]*`\\*\\* \\(([^,)]+)")
)

// documentedPermissions reads the permissions of routes, by method and path, from docs/use/rest.md. It was written from the
// published interface, and not from the protos.
func documentedPermissions(t *testing.T) map[string][]string {
	text, err := os.ReadFile("../docs/use/rest.md")
	require.NoError(t, err)
	documented := map[string][]string{}
	for _, form := range []*regexp.Regexp{pageRow, pageHeading, pageParagraph} {
		found := form.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, found, form)
		for _, m := range found {
			var permissions []string
			module := "scaimind:"
			if strings.Contains(m[2], "/v1/modules/scaicore/") || strings.Contains(m[2], "`/v1/flows") {
				module = "scaicore:"
			}
			for _, p := range strings.Split(strings.Trim(m[3], "` "), " or ") {
				if !strings.Contains(p, ":") {
					p = module + p
				}
				permissions = append(permissions, p)
			}
			for _, method := range strings.Split(m[1], ", ") {
				for _, path := range strings.Split(m[2], ", ") {
					route := method + " " + strings.Trim(path, "`")
					require.NotContains(t, documented, route, "it is described twice")
					documented[route] = permissions
				}
			}
		}
	}
	require.Greater(t, len(documented), 50)
	return documented
}

// permissionsOf returns the documented permissions of a route. The nodes have a second path, which the page says once, and so have flows.
func permissionsOf(documented map[string][]string, r rest.Route) []string {
	r.Name = strings.Replace(r.Name, " /api/v1/", " /v1/", 1)
	if p, ok := documented[r.Name]; ok {
		return p
	}
	return documented[strings.Replace(r.Name, " /nodes", " /cluster/nodes", 1)]
}

// Each route takes the permission that docs/use/rest.md says, and a caller with every other one is refused before a
// coordinator is called.
func TestPermissions_areThoseOfThePage(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	config := gatewaytest.Config(c)
	documented := documentedPermissions(t)
	every := append([]string{auth.PermissionOperator}, auth.AllPermissions...)
	for _, r := range allRoutes() {
		rest := slices.DeleteFunc(slices.Clone(every), func(p string) bool { return slices.Contains(r.AnyOf, p) })
		config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "none-of-" + strings.Join(r.AnyOf, ","), Tenant: "acme", User: "ann", Permissions: rest})
	}
	g := gatewaytest.NewGate(t, config)
	for _, r := range allRoutes() {
		t.Run(r.Name, func(t *testing.T) {
			want := permissionsOf(documented, r)
			require.ElementsMatch(t, want, r.AnyOf, "docs/use/rest.md says which permission it takes: write a row for a new route")
			if len(want) == 0 {
				return
			}
			path, body := sample(r)
			a := g.Do(r.Method, path, body, "Authorization", "Bearer none-of-"+strings.Join(r.AnyOf, ","))
			require.Equal(t, 403, a.Code)
			require.Equal(t, "AUTHZ_PERMISSION_DENIED", a.Error.Code)
			require.Contains(t, a.Error.Message, want[0])
		})
	}
	require.Empty(t, c.Calls(), "nothing was asked of a coordinator")
	var served []string
	for _, r := range allRoutes() {
		served = append(served, r.Name)
	}
	for route := range documented {
		require.Contains(t, served, route, "docs/use/rest.md describes a route that is not served")
	}
}

// beyondTheTenant reads, from the documentation, the paths below which writes affect more than one tenant, and their permission.
func beyondTheTenant(t *testing.T) map[string]string {
	text, err := os.ReadFile("../docs/operate/security.md")
	require.NoError(t, err)
	_, rows, found := strings.Cut(string(text), "| writes to | permission |\n|---|---|\n")
	require.True(t, found, "the table of writes is gone")
	code := regexp.MustCompile("`([^`]+)`")
	writes := map[string]string{}
	for line := range strings.Lines(rows) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		for _, path := range code.FindAllStringSubmatch(cells[1], -1) {
			writes[path[1]] = code.FindStringSubmatch(cells[2])[1]
		}
	}
	require.Greater(t, len(writes), 5)
	return writes
}

// A write that takes more than the permission to manage one's own jobs is below a path of the table, and every write below such a
// path takes the permission that the table says.
func TestWrites_beyondTheTenant(t *testing.T) {
	documented := beyondTheTenant(t)
	used := map[string]bool{}
	for _, r := range allRoutes() {
		_, path, _ := strings.Cut(r.Name, " ")
		below := ""
		for root := range documented {
			if path == root || strings.HasPrefix(path, root+"/") {
				below = root
			}
		}
		if r.Method == "GET" {
			continue
		}
		if below == "" {
			require.NotContains(t, r.AnyOf, auth.PermissionClusterAdmin, "%s: the table in docs/operate/security.md lacks it", r.Name)
			require.NotContains(t, r.AnyOf, auth.PermissionOperator, "%s: the table in docs/operate/security.md lacks it", r.Name)
			continue
		}
		used[below] = true
		require.Equal(t, []string{documented[below]}, r.AnyOf, "%s: the permission that docs/operate/security.md says", r.Name)
	}
	for root := range documented {
		require.True(t, used[root], "%s is a path of no write", root)
	}
}
