package gateway

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Access to another tenant requires the permission of an operator, whatever other permissions the caller has. Only
// calls about tenants tell the coordinator that the caller is an operator.
func TestTenants_ofOthersAreForOperators(t *testing.T) {
	c := newScripted(t)
	config := testConfig(c)
	config.Tokens = append(config.Tokens,
		StaticToken{Token: "operator", Tenant: "acme", User: "olga", Permissions: append([]string{auth.PermissionOperator}, auth.AllPermissions...)},
		StaticToken{Token: "admin", Tenant: "acme", User: "ann", Permissions: auth.AllPermissions})
	g := newGate(t, config)
	for _, tc := range []struct{ method, path, body string }{
		{"GET", "/tenants/evil/quota", ""},
		{"PUT", "/tenants/evil/quota", `{"max_gpus":1}`},
		{"DELETE", "/tenants/evil/quota", ""},
		{"GET", "/audit?tenant_id=evil", ""},
		{"GET", "/audit?tenant_id=*", ""},
	} {
		before := len(c.seen())
		a := g.do(tc.method, prefix+tc.path, tc.body, "Authorization", "Bearer admin")
		require.Equal(t, 403, a.code, "%s %s", tc.method, tc.path)
		require.Equal(t, "AUTHZ_PERMISSION_DENIED", a.Error.Code)
		require.Len(t, c.seen(), before, "nothing is called")
		require.Equal(t, 200, g.do(tc.method, prefix+tc.path, tc.body, "Authorization", "Bearer operator").code)
		md := c.seen()[before].md
		require.Equal(t, []string{"1"}, md[status.KeyOperator])
		require.Equal(t, []string{"acme"}, md[status.KeyTenant], "it is the operator who does it, not the tenant")
	}
	for _, tc := range []struct{ method, path, body string }{
		{"GET", "/maintenance", ""},
		{"PUT", "/maintenance/kernel", `{"nodes":["n1"],"duration_seconds":60}`},
		{"GET", "/reservations", ""},
		{"PUT", "/reservations/paper", `{"gpus":1,"duration_seconds":60}`},
	} {
		for token, operator := range map[string][]string{"operator": {"1"}, "admin": nil} {
			before := len(c.seen())
			require.Equal(t, 200, g.do(tc.method, prefix+tc.path, tc.body, "Authorization", "Bearer "+token).code, tc.path)
			require.Equal(t, operator, c.seen()[before].md[status.KeyOperator], "%s %s shows operators more", tc.method, tc.path)
		}
	}
	require.Equal(t, 200, g.do("GET", prefix+"/tenants/acme/quota", "", "Authorization", "Bearer admin").code)
	calls := c.seen()
	require.Empty(t, calls[len(calls)-1].md[status.KeyOperator], "to run the cluster is not to look after all tenants")
	// Coordinators could not compare a time that is centuries away.
	for raw, year := range map[string]int{"9999-12-31T00:00:00Z": 2262, "0001-01-01T00:00:00Z": 1677, "99999999999": 2262} {
		at, ok := wire.Since(raw, time.Now())
		require.True(t, ok)
		require.Equal(t, year, at.UTC().Year(), raw)
		require.True(t, time.Unix(0, at.UnixNano()).Equal(at), raw)
	}
	for _, bad := range []string{"/audit?page_size=0", "/audit?page_size=1001", "/audit?since=yesterday", "/audit?until=x"} {
		require.Equal(t, 422, g.do("GET", prefix+bad, "", "Authorization", "Bearer admin").code, bad)
	}
	require.Equal(t, 422, g.do("PUT", prefix+"/tenants/acme/quota", `{"max_gpus":"many"}`, "Authorization", "Bearer admin").code)
}

// Names may contain slashes and spaces, and an escaped name is one segment of a path.
func TestPaths_aNameIsOneSegment(t *testing.T) {
	c := newScripted(t)
	g := newGate(t, testConfig(c))
	var asked []string
	c.on("GetJob", func(_ context.Context, req any) (any, error) {
		asked = append(asked, req.(*v1.GetJobRequest).GetJobId())
		return nil, grpcstatus.Error(codes.NotFound, "there is no such job")
	})
	for _, name := range []string{"a/b", "a b", "a%b", "../jobs", "..", "é", "a+b", "a?b#c"} {
		a := g.do("GET", prefix+"/jobs/"+url.PathEscape(name), "")
		require.Equal(t, 404, a.code)
		require.Equal(t, "there is no such job", a.Error.Message, name)
		require.Equal(t, name, asked[len(asked)-1])
	}
	require.Equal(t, 404, g.do("GET", prefix+"/jobs/a/b", "").code)
	require.Len(t, asked, 8)
}

// A quota is no overload: the answer has its own code, and no Retry-After.
func TestQuotaExceeded(t *testing.T) {
	c := newScripted(t)
	outcome := status.QuotaExceeded
	c.on("SubmitJob", func(ctx context.Context, _ any) (any, error) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyOutcome, outcome))
		return nil, grpcstatus.Error(codes.ResourceExhausted, "tenant quota: 2 of 2 unfinished jobs")
	})
	c.on("SubmitJobs", func(context.Context, any) (any, error) {
		return &v1.SubmitJobsResponse{Results: []*v1.SubmitJobResult{
			{Code: int32(codes.ResourceExhausted), Message: "tenant quota: 2 of 2 unfinished jobs", Reason: status.QuotaExceeded},
			{Code: int32(codes.ResourceExhausted), Message: "full"},
		}}, nil
	})
	g := newGate(t, testConfig(c))
	a := g.do("POST", prefix+"/jobs", `{"name":"a","command_config":{"argv":["x"]}}`)
	require.Equal(t, 429, a.code, a.body)
	require.Equal(t, "QUOTA_EXCEEDED", a.Error.Code)
	require.Contains(t, a.Error.Message, "2 of 2 unfinished jobs")
	require.Empty(t, a.header.Get("Retry-After"))
	outcome = status.NotSent
	a = g.do("POST", prefix+"/jobs", `{"name":"a","command_config":{"argv":["x"]}}`)
	require.Equal(t, "RESOURCE_EXHAUSTED", a.Error.Code)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	a = g.do("POST", prefix+"/jobs/batch", `{"jobs":[{"name":"a"},{"name":"b"}]}`)
	require.Equal(t, 207, a.code)
	require.Contains(t, a.body, `"http_status":429,"error":{"code":"QUOTA_EXCEEDED"`)
	require.Contains(t, a.body, `"error":{"code":"RESOURCE_EXHAUSTED"`)
}

// Calls carry the id of the caller's API token, for the audit log.
func TestCalls_carryTheTokenOfTheCaller(t *testing.T) {
	c := newScripted(t)
	c.on("VerifyToken", func(context.Context, any) (any, error) {
		return &v1.VerifyTokenResponse{Token: &v1.Token{TokenId: "tok_7", TenantId: "acme", UserId: "ann", Permissions: auth.AllPermissions}}, nil
	})
	g := newGate(t, testConfig(c))
	require.Equal(t, 201, g.do("POST", prefix+"/jobs", `{"name":"a"}`, "Authorization", "Bearer sgk_x").code)
	calls := c.seen()
	require.Equal(t, []string{"tok_7"}, calls[len(calls)-1].md[status.KeyToken])
}
