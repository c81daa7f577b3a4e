package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/denials"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// toldOf describes the denials that were reported to a coordinator.
func toldOf(calls []gatewaytest.Call) []string {
	var out []string
	for _, call := range calls {
		if call.Method != "RecordDenials" {
			continue
		}
		for _, d := range call.Request.(*v1.RecordDenialsRequest).GetDenials() {
			out = append(out, fmt.Sprintf("%s/%s %s %s %s %s %dx by %s", d.GetTenantId(), d.GetUserId(), d.GetOutcome(), d.GetReason(), d.GetObject(), d.GetAddress(), d.GetCount(), d.GetDeniedBy()))
		}
	}
	return out
}

func TestDenials_areToldToTheCoordinatorsAddedUp(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	config := gatewaytest.Config(c)
	config.ModuleTenants = []string{"acme"}
	config.Tokens = append(config.Tokens,
		gateway.StaticToken{Token: "viewer", Tenant: "acme", User: "vic", Permissions: []string{auth.PermissionView, auth.PermissionClusterAdmin}},
		gateway.StaticToken{Token: "elsewhere", Tenant: "umbrella", User: "eve", Permissions: auth.AllPermissions})
	var log gatewaytest.Log
	config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	s, g := newInner(t, config)
	ask := func(code int, method, path, body, authorization string) {
		t.Helper()
		require.Equal(t, code, g.Do(method, path, body, "Authorization", authorization).Code)
	}
	c.On("VerifyToken", func(context.Context, any) (any, error) { return nil, grpcstatus.Error(codes.NotFound, "nobody's") })
	for range 3 {
		ask(401, "GET", rest.Prefix+"/jobs", "", "Bearer sgk_very-secret-guess")
	}
	ask(401, "GET", rest.Prefix+"/jobs", "", "")
	ask(403, "POST", rest.Prefix+"/jobs", "{}", "Bearer viewer")
	ask(403, "PUT", rest.Prefix+"/tenants/umbrella/quota", `{"max_gpus":1}`, "Bearer viewer")
	ask(403, "GET", rest.Prefix+"/jobs", "", "Bearer elsewhere")
	ask(422, "POST", rest.Prefix+"/jobs", "{", "Bearer "+gatewaytest.TokenAll)
	ask(404, "GET", rest.Prefix+"/nothing", "", "Bearer "+gatewaytest.TokenAll)
	c.On("GetCluster", func(context.Context, any) (any, error) { return nil, grpcstatus.Error(codes.PermissionDenied, "no") })
	ask(403, "GET", rest.Prefix+"/cluster", "", "Bearer viewer") // the coordinators denied it, and record it themselves
	s.Denied.ReportOnce(t.Context(), s.Reports(), gateway.TellDenialsWithin)
	require.ElementsMatch(t, []string{
		"/ UNAUTHENTICATED AUTH_TOKEN_INVALID GET /jobs 192.0.2.1 3x by gateway",
		"/ UNAUTHENTICATED AUTH_TOKEN_MISSING GET /jobs 192.0.2.1 1x by gateway",
		"acme/vic PERMISSION_DENIED AUTHZ_PERMISSION_DENIED POST /jobs 192.0.2.1 1x by gateway",
		"acme/vic PERMISSION_DENIED AUTHZ_PERMISSION_DENIED PUT /tenants/{id}/quota 192.0.2.1 1x by gateway",
		"umbrella/eve PERMISSION_DENIED MODULE_NOT_ENABLED GET /jobs 192.0.2.1 1x by gateway",
	}, toldOf(c.Calls()))
	figures := g.Do("GET", "/metrics", "").Body
	for reason, want := range map[string]int{"AUTH_TOKEN_INVALID": 3, "AUTH_TOKEN_MISSING": 1, "AUTHZ_PERMISSION_DENIED": 2, "MODULE_NOT_ENABLED": 1, "VALIDATION_ERROR": 1} {
		require.Contains(t, figures, fmt.Sprintf("mind_denied_total{reason=%q} %d\n", reason, want))
	}
	require.Equal(t, 5, strings.Count(log.String(), "scaimind_access_denied"), "one line for each kind")
	require.NotContains(t, log.String(), "very-secret-guess")

	calls := len(c.Calls())
	s.Denied.ReportOnce(t.Context(), s.Reports(), gateway.TellDenialsWithin)
	require.Len(t, c.Calls(), calls, "nothing was denied since")
	ask(401, "GET", rest.Prefix+"/jobs", "", "")
	c.On("RecordDenials", func(context.Context, any) (any, error) { return nil, errors.New("the log is full") })
	s.Denied.ReportOnce(t.Context(), s.Reports(), gateway.TellDenialsWithin)
	require.Contains(t, log.String(), "denied requests are not in the audit log", "what is lost is said")
}

// A hundred thousand refusals, from as many addresses and of all kinds, cause one call to the coordinators, and a
// bounded number of records and lines of the log.
func TestDenials_aFloodIsOneCall(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	config := gatewaytest.Config(c)
	var log gatewaytest.Log
	config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "viewer", Tenant: "acme", User: "vic", Permissions: []string{auth.PermissionView}})
	s, g := newInner(t, config)
	route := &rest.Route{Name: "GET /jobs"}
	const flood = 100_000
	for i := range flood {
		r := httptest.NewRequest("GET", rest.Prefix+"/jobs", nil)
		r.RemoteAddr = fmt.Sprintf("[2001:db8::%x:%x]:%d", i>>16, i&0xffff, 1024+i%60_000)
		x := &rest.Request{Server: &s.Server, Route: route, R: r, RequestID: fmt.Sprint("req_", i)}
		x.NoteDenial(&rest.Problem{HTTP: 401, Code: "AUTH_TOKEN_INVALID"})
	}
	require.Equal(t, 403, g.Do("POST", rest.Prefix+"/jobs", "{}", "Authorization", "Bearer viewer").Code)
	s.Denied.ReportOnce(t.Context(), s.Reports(), gateway.TellDenialsWithin)
	calls := c.Calls()
	require.Len(t, calls, 1)
	require.Equal(t, []string{"secret"}, calls[0].MD[status.KeySecret])
	require.Empty(t, calls[0].MD[status.KeyTenant], "it is made for no tenant")
	told := calls[0].Request.(*v1.RecordDenialsRequest).GetDenials()
	require.LessOrEqual(t, len(told), denials.MaxOfTenant+2)
	sum := int64(0)
	for _, d := range told {
		sum += d.GetCount()
	}
	require.EqualValues(t, flood+1, sum, "none is left uncounted")
	require.Contains(t, toldOf(calls), "acme/vic PERMISSION_DENIED AUTHZ_PERMISSION_DENIED POST /jobs 192.0.2.1 1x by gateway", "the flood hides nobody")
	require.LessOrEqual(t, strings.Count(log.String(), "\n"), denials.MaxOfTenant+2)
}
