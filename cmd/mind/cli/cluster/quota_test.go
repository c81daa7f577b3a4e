package cluster_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestQuota_showSetClear(t *testing.T) {
	g := clitest.NewGateway(t)
	acme := `{"tenant_id":"acme","max_gpus":16,"max_running_jobs":null,"max_jobs":0,"gpus":3.5,"running_jobs":4,"jobs":12,"max_gpus_by_type":{"H100":8},"max_gpu_hours":500,"gpus_by_type":{"A100":2,"H100":1.5},"gpu_hours":480.25,"max_submissions":-1,"max_spec_mb":null,"submissions":7,"spec_mb":0.25,"updated_by":"olga"}`
	g.On("GET /tenants/-/quota", clitest.Answer(200, acme))
	g.On("GET /tenants/a/b/quota", clitest.Answer(200, acme)) // the client escapes it, so that it is one segment
	g.On("GET /quotas", clitest.Answer(200, `{"quotas":[`+acme+`,{"tenant_id":"guests","max_gpus":null,"gpus":0}]}`))
	g.On("PUT /tenants/acme/quota", clitest.Answer(200, acme))
	g.On("DELETE /tenants/acme/quota", clitest.Answer(200, `{"tenant_id":"acme"}`))

	out, _, code := clitest.Run(t, "quota", "show")
	require.Zero(t, code)
	require.Regexp(t, `TENANT\s+GPUS\s+RUNNING\s+JOBS\s+SUBMISSIONS\s+REQUESTS\s+GPU HOURS\s+BY TYPE\s+SET BY\nacme\s+3\.5 of 16\s+4 of any\s+12 of 0\s+7 of any\s+0\.25 of 256 MiB\s+480\.2 of 500\s+A100: 2 of any, H100: 1\.5 of 8\s+olga\n`, out)
	out, _, code = clitest.Run(t, "quota", "show", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, acme, out)
	_, _, code = clitest.Run(t, "quota", "show", "a/b")
	require.Zero(t, code)
	out, _, code = clitest.Run(t, "quota", "list")
	require.Zero(t, code)
	require.Regexp(t, `(?m)^guests\s+0 of any\s+0 of any\s+0 of any\s+0 of 10000\s+0 of 256 MiB\s+0\.0 of any\s*$`, out)

	// A missing flag means no limit, and 0 is a limit.
	_, stderr, code := clitest.Run(t, "quota", "set", "acme", "--max-gpus", "0", "--max-jobs", "1000")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"max_gpus":0,"max_jobs":1000}`, g.Bodies[len(g.Bodies)-1])
	require.NotEmpty(t, g.Keys[len(g.Keys)-1])
	_, stderr, code = clitest.Run(t, "quota", "set", "acme", "--max-submissions", "unlimited", "--max-spec-mb", "1024")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"max_submissions":-1,"max_spec_mb":1024}`, g.Bodies[len(g.Bodies)-1])
	out, _, code = clitest.Run(t, "quota", "clear", "acme")
	require.Zero(t, code)
	require.Equal(t, "acme has no quota\n", out)
	require.Equal(t, "DELETE /tenants/acme/quota", g.Asked[len(g.Asked)-1])
	require.NotEmpty(t, g.Keys[len(g.Keys)-1])

	g.On("PUT /tenants/other/quota", clitest.Refuse(http.StatusForbidden, "AUTHZ_PERMISSION_DENIED", "the quota of another tenant needs the permission mind:operator"))
	_, stderr, code = clitest.Run(t, "quota", "set", "other", "--max-gpus", "1")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "mind:operator")

	asked := len(g.Asked)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"clear whose":    {[]string{"clear"}, "mind quota clear needs TENANT; for example: mind quota clear acme\n"},
		"set whose":      {[]string{"set", "--max-gpus", "1"}, "mind quota set needs TENANT; for example: mind quota set acme"},
		"set to what":    {[]string{"set", "acme"}, "give at least one limit; mind quota clear removes all of them"},
		"not a number":   {[]string{"set", "acme", "--max-gpus", "many"}, "many"},
		"no bound":       {[]string{"set", "acme", "--max-submissions", "-1"}, "not unlimited"},
		"two tenants":    {[]string{"show", "a", "b"}, `was given "a" "b"`},
		"a bad format":   {[]string{"list", "-o", "xml"}, "table, json or yaml"},
		"no such thing":  {[]string{"claer", "acme"}, "did you mean mind quota clear?"},
		"list of whose?": {[]string{"list", "acme"}, "takes no arguments"},
	} {
		_, stderr, code := clitest.Run(t, append([]string{"quota"}, c.args...)...)
		require.Equal(t, 2, code, "%s: %s", name, stderr)
		require.Contains(t, stderr, c.want, name)
	}
	require.Len(t, g.Asked, asked, "nothing was asked")
}
