package gateway_test

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
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Access to another tenant requires the permission of an operator, whatever other permissions the caller has. Only
// calls about tenants tell the coordinator that the caller is an operator.
func TestTenants_ofOthersAreForOperators(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	config := gatewaytest.Config(c)
	config.Tokens = append(config.Tokens,
		gateway.StaticToken{Token: "operator", Tenant: "acme", User: "olga", Permissions: append([]string{auth.PermissionOperator}, auth.AllPermissions...)},
		gateway.StaticToken{Token: "admin", Tenant: "acme", User: "ann", Permissions: auth.AllPermissions})
	g := gatewaytest.NewGate(t, config)
	for _, tc := range []struct{ method, path, body string }{
		{"GET", "/tenants/evil/quota", ""},
		{"PUT", "/tenants/evil/quota", `{"max_gpus":1}`},
		{"DELETE", "/tenants/evil/quota", ""},
		{"GET", "/audit?tenant_id=evil", ""},
		{"GET", "/audit?tenant_id=*", ""},
	} {
		before := len(c.Calls())
		a := g.Do(tc.method, rest.Prefix+tc.path, tc.body, "Authorization", "Bearer admin")
		require.Equal(t, 403, a.Code, "%s %s", tc.method, tc.path)
		require.Equal(t, "AUTHZ_PERMISSION_DENIED", a.Error.Code)
		require.Len(t, c.Calls(), before, "nothing is called")
		require.Equal(t, 200, g.Do(tc.method, rest.Prefix+tc.path, tc.body, "Authorization", "Bearer operator").Code)
		md := c.Calls()[before].MD
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
			before := len(c.Calls())
			require.Equal(t, 200, g.Do(tc.method, rest.Prefix+tc.path, tc.body, "Authorization", "Bearer "+token).Code, tc.path)
			require.Equal(t, operator, c.Calls()[before].MD[status.KeyOperator], "%s %s shows operators more", tc.method, tc.path)
		}
	}
	require.Equal(t, 200, g.Do("GET", rest.Prefix+"/tenants/acme/quota", "", "Authorization", "Bearer admin").Code)
	calls := c.Calls()
	require.Empty(t, calls[len(calls)-1].MD[status.KeyOperator], "to run the cluster is not to look after all tenants")
	// Coordinators could not compare a time that is centuries away.
	for raw, year := range map[string]int{"9999-12-31T00:00:00Z": 2262, "0001-01-01T00:00:00Z": 1677, "99999999999": 2262} {
		at, ok := wire.Since(raw, time.Now())
		require.True(t, ok)
		require.Equal(t, year, at.UTC().Year(), raw)
		require.True(t, time.Unix(0, at.UnixNano()).Equal(at), raw)
	}
	for _, bad := range []string{"/audit?page_size=0", "/audit?page_size=1001", "/audit?since=yesterday", "/audit?until=x"} {
		require.Equal(t, 422, g.Do("GET", rest.Prefix+bad, "", "Authorization", "Bearer admin").Code, bad)
	}
	require.Equal(t, 422, g.Do("PUT", rest.Prefix+"/tenants/acme/quota", `{"max_gpus":"many"}`, "Authorization", "Bearer admin").Code)
}

// Names may contain slashes and spaces, and an escaped name is one segment of a path.
func TestPaths_aNameIsOneSegment(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	var asked []string
	c.On("GetJob", func(_ context.Context, req any) (any, error) {
		asked = append(asked, req.(*v1.GetJobRequest).GetJobId())
		return nil, grpcstatus.Error(codes.NotFound, "there is no such job")
	})
	for _, name := range []string{"a/b", "a b", "a%b", "../jobs", "..", "é", "a+b", "a?b#c"} {
		a := g.Do("GET", rest.Prefix+"/jobs/"+url.PathEscape(name), "")
		require.Equal(t, 404, a.Code)
		require.Equal(t, "there is no such job", a.Error.Message, name)
		require.Equal(t, name, asked[len(asked)-1])
	}
	require.Equal(t, 404, g.Do("GET", rest.Prefix+"/jobs/a/b", "").Code)
	require.Len(t, asked, 8)
}

// A quota is no overload: the answer has its own code, and no Retry-After.
func TestQuotaExceeded(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	outcome := status.QuotaExceeded
	c.On("SubmitJob", func(ctx context.Context, _ any) (any, error) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyOutcome, outcome))
		return nil, grpcstatus.Error(codes.ResourceExhausted, "tenant quota: 2 of 2 unfinished jobs")
	})
	c.On("SubmitJobs", func(context.Context, any) (any, error) {
		return &v1.SubmitJobsResponse{Results: []*v1.SubmitJobResult{
			{Code: int32(codes.ResourceExhausted), Message: "tenant quota: 2 of 2 unfinished jobs", Reason: status.QuotaExceeded},
			{Code: int32(codes.ResourceExhausted), Message: "full"},
		}}, nil
	})
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	a := g.Do("POST", rest.Prefix+"/jobs", `{"name":"a","command_config":{"argv":["x"]}}`)
	require.Equal(t, 429, a.Code, a.Body)
	require.Equal(t, "QUOTA_EXCEEDED", a.Error.Code)
	require.Contains(t, a.Error.Message, "2 of 2 unfinished jobs")
	require.Empty(t, a.Header.Get("Retry-After"))
	outcome = status.NotSent
	a = g.Do("POST", rest.Prefix+"/jobs", `{"name":"a","command_config":{"argv":["x"]}}`)
	require.Equal(t, "RESOURCE_EXHAUSTED", a.Error.Code)
	require.Equal(t, "1", a.Header.Get("Retry-After"))
	a = g.Do("POST", rest.Prefix+"/jobs/batch", `{"jobs":[{"name":"a"},{"name":"b"}]}`)
	require.Equal(t, 207, a.Code)
	require.Contains(t, a.Body, `"http_status":429,"error":{"code":"QUOTA_EXCEEDED"`)
	require.Contains(t, a.Body, `"error":{"code":"RESOURCE_EXHAUSTED"`)
}

// Calls carry the id of the caller's API token, for the audit log.
func TestCalls_carryTheTokenOfTheCaller(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	c.On("VerifyToken", func(context.Context, any) (any, error) {
		return &v1.VerifyTokenResponse{Token: &v1.Token{TokenId: "tok_7", TenantId: "acme", UserId: "ann", Permissions: auth.AllPermissions}}, nil
	})
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	require.Equal(t, 201, g.Do("POST", rest.Prefix+"/jobs", `{"name":"a"}`, "Authorization", "Bearer sgk_x").Code)
	calls := c.Calls()
	require.Equal(t, []string{"tok_7"}, calls[len(calls)-1].MD[status.KeyToken])
}
