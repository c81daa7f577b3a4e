package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/denials"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// keptLog is a log that several goroutines write to.
type keptLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *keptLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *keptLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// toldOf describes the denials that were reported to a coordinator.
func toldOf(calls []seen) []string {
	var out []string
	for _, call := range calls {
		if call.method != "RecordDenials" {
			continue
		}
		for _, d := range call.request.(*v1.RecordDenialsRequest).GetDenials() {
			out = append(out, fmt.Sprintf("%s/%s %s %s %s %s %dx by %s", d.GetTenantId(), d.GetUserId(), d.GetOutcome(), d.GetReason(), d.GetObject(), d.GetAddress(), d.GetCount(), d.GetDeniedBy()))
		}
	}
	return out
}

func TestDenials_areToldToTheCoordinatorsAddedUp(t *testing.T) {
	c := newScripted(t)
	config := testConfig(c)
	config.ModuleTenants = []string{"acme"}
	config.Tokens = append(config.Tokens,
		StaticToken{Token: "viewer", Tenant: "acme", User: "vic", Permissions: []string{auth.PermissionView, auth.PermissionClusterAdmin}},
		StaticToken{Token: "elsewhere", Tenant: "umbrella", User: "eve", Permissions: auth.AllPermissions})
	var log keptLog
	config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	g := newGate(t, config)
	s := g.server
	ask := func(code int, method, path, body, authorization string) {
		t.Helper()
		require.Equal(t, code, g.do(method, path, body, "Authorization", authorization).code)
	}
	c.on("VerifyToken", func(context.Context, any) (any, error) { return nil, grpcstatus.Error(codes.NotFound, "nobody's") })
	for range 3 {
		ask(401, "GET", prefix+"/jobs", "", "Bearer sgk_very-secret-guess")
	}
	ask(401, "GET", prefix+"/jobs", "", "")
	ask(403, "POST", prefix+"/jobs", "{}", "Bearer viewer")
	ask(403, "PUT", prefix+"/tenants/umbrella/quota", `{"max_gpus":1}`, "Bearer viewer")
	ask(403, "GET", prefix+"/jobs", "", "Bearer elsewhere")
	ask(422, "POST", prefix+"/jobs", "{", "Bearer "+tokenAll)
	ask(404, "GET", prefix+"/nothing", "", "Bearer "+tokenAll)
	c.on("GetCluster", func(context.Context, any) (any, error) { return nil, grpcstatus.Error(codes.PermissionDenied, "no") })
	ask(403, "GET", prefix+"/cluster", "", "Bearer viewer") // the coordinators denied it, and record it themselves
	s.Denied.ReportOnce(t.Context(), s.reports(), tellDenialsWithin)
	require.ElementsMatch(t, []string{
		"/ UNAUTHENTICATED AUTH_TOKEN_INVALID GET /jobs 192.0.2.1 3x by gateway",
		"/ UNAUTHENTICATED AUTH_TOKEN_MISSING GET /jobs 192.0.2.1 1x by gateway",
		"acme/vic PERMISSION_DENIED AUTHZ_PERMISSION_DENIED POST /jobs 192.0.2.1 1x by gateway",
		"acme/vic PERMISSION_DENIED AUTHZ_PERMISSION_DENIED PUT /tenants/{id}/quota 192.0.2.1 1x by gateway",
		"umbrella/eve PERMISSION_DENIED MODULE_NOT_ENABLED GET /jobs 192.0.2.1 1x by gateway",
	}, toldOf(c.seen()))
	figures := g.do("GET", "/metrics", "").body
	for reason, want := range map[string]int{"AUTH_TOKEN_INVALID": 3, "AUTH_TOKEN_MISSING": 1, "AUTHZ_PERMISSION_DENIED": 2, "MODULE_NOT_ENABLED": 1, "VALIDATION_ERROR": 1} {
		require.Contains(t, figures, fmt.Sprintf("mind_denied_total{reason=%q} %d\n", reason, want))
	}
	require.Equal(t, 5, strings.Count(log.String(), "scaimind_access_denied"), "one line for each kind")
	require.NotContains(t, log.String(), "very-secret-guess")

	calls := len(c.seen())
	s.Denied.ReportOnce(t.Context(), s.reports(), tellDenialsWithin)
	require.Len(t, c.seen(), calls, "nothing was denied since")
	ask(401, "GET", prefix+"/jobs", "", "")
	c.on("RecordDenials", func(context.Context, any) (any, error) { return nil, errors.New("the log is full") })
	s.Denied.ReportOnce(t.Context(), s.reports(), tellDenialsWithin)
	require.Contains(t, log.String(), "denied requests are not in the audit log", "what is lost is said")
}

// A hundred thousand refusals, from as many addresses and of all kinds, cause one call to the coordinators, and a
// bounded number of records and lines of the log.
func TestDenials_aFloodIsOneCall(t *testing.T) {
	c := newScripted(t)
	config := testConfig(c)
	var log keptLog
	config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	config.Tokens = append(config.Tokens, StaticToken{Token: "viewer", Tenant: "acme", User: "vic", Permissions: []string{auth.PermissionView}})
	g := newGate(t, config)
	route := &rest.Route{Name: "GET /jobs"}
	const flood = 100_000
	for i := range flood {
		r := httptest.NewRequest("GET", prefix+"/jobs", nil)
		r.RemoteAddr = fmt.Sprintf("[2001:db8::%x:%x]:%d", i>>16, i&0xffff, 1024+i%60_000)
		x := &rest.Request{Server: &g.server.Server, Route: route, R: r, RequestID: fmt.Sprint("req_", i)}
		x.NoteDenial(&rest.Problem{HTTP: 401, Code: "AUTH_TOKEN_INVALID"})
	}
	require.Equal(t, 403, g.do("POST", prefix+"/jobs", "{}", "Authorization", "Bearer viewer").code)
	g.server.Denied.ReportOnce(t.Context(), g.server.reports(), tellDenialsWithin)
	calls := c.seen()
	require.Len(t, calls, 1)
	require.Equal(t, []string{"secret"}, calls[0].md[status.KeySecret])
	require.Empty(t, calls[0].md[status.KeyTenant], "it is made for no tenant")
	told := calls[0].request.(*v1.RecordDenialsRequest).GetDenials()
	require.LessOrEqual(t, len(told), denials.MaxOfTenant+2)
	sum := int64(0)
	for _, d := range told {
		sum += d.GetCount()
	}
	require.EqualValues(t, flood+1, sum, "none is left uncounted")
	require.Contains(t, toldOf(calls), "acme/vic PERMISSION_DENIED AUTHZ_PERMISSION_DENIED POST /jobs 192.0.2.1 1x by gateway", "the flood hides nobody")
	require.LessOrEqual(t, strings.Count(log.String(), "\n"), denials.MaxOfTenant+2)
}
