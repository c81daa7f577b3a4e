package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/origins"
	"github.com/mindcoordinator/mind/gateway/rest"
)

const dashboard = "https://dashboard.example.com"

// Pages of the configured origins may use the gateway, and read the headers that they need; pages of other origins may
// not.
func TestCORS_pagesOfTheConfiguredOrigins(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	config := gatewaytest.Config(c)
	config.CORSOrigins = []string{dashboard, "http://localhost:5173"}
	require.NoError(t, config.Validate())
	g := gatewaytest.NewGate(t, config)
	preflight := func(origin, method, headers string) *gatewaytest.Answer {
		return g.Do("OPTIONS", rest.Prefix+"/jobs", "", "Authorization", "", "Origin", origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
	}
	allowed := func(a *gatewaytest.Answer) string { return a.Header.Get("Access-Control-Allow-Origin") }
	for _, origin := range config.CORSOrigins {
		a := preflight(origin, "POST", "authorization,content-type,idempotency-key,last-event-id,x-mind-consistency,x-request-id,x-request-timeout")
		require.Equal(t, 204, a.Code)
		require.Equal(t, []string{origin}, a.Header["Access-Control-Allow-Origin"], "the origin itself, never *")
		require.Equal(t, "POST", a.Header.Get("Access-Control-Allow-Methods"))
		require.Contains(t, a.Header.Get("Access-Control-Allow-Headers"), "authorization")
		require.Equal(t, "600", a.Header.Get("Access-Control-Max-Age"))
		require.Contains(t, a.Header.Get("Vary"), "Origin")
		require.Empty(t, a.Header.Get("Access-Control-Allow-Credentials"))
	}
	require.Empty(t, c.Calls(), "a preflight calls nothing")
	for name, a := range map[string]*gatewaytest.Answer{
		"another origin":                   preflight("https://evil.example.com", "POST", "authorization"),
		"one that begins alike":            preflight(dashboard+".evil.com", "POST", "authorization"),
		"one that ends alike":              preflight("https://evil-dashboard.example.com", "POST", "authorization"),
		"another scheme":                   preflight("http://dashboard.example.com", "POST", "authorization"),
		"another port":                     preflight(dashboard+":8443", "POST", "authorization"),
		"no origin at all":                 preflight("null", "POST", "authorization"),
		"a method that nothing takes":      preflight(dashboard, "TRACE", "authorization"),
		"a header that nothing looks at":   preflight(dashboard, "POST", "authorization,x-evil"),
		"headers without end":              preflight(dashboard, "POST", strings.Repeat(",", 50_000)),
		"a header of the inner interfaces": preflight(dashboard, "POST", "x-tenant-id"),
	} {
		require.Empty(t, allowed(a), name)
		require.Empty(t, a.Header.Get("Access-Control-Allow-Headers"), name)
	}

	a := g.Do("GET", rest.Prefix+"/jobs", "", "Origin", dashboard)
	require.Equal(t, 200, a.Code)
	require.Equal(t, dashboard, allowed(a))
	require.Contains(t, a.Header.Get("Vary"), "Origin")
	for _, header := range []string{"X-Request-Id", "X-Mind-Index", "Retry-After"} {
		require.Contains(t, a.Header.Get("Access-Control-Expose-Headers"), header)
	}
	a = g.Do("GET", rest.Prefix+"/jobs", "", "Origin", dashboard, "Authorization", "")
	require.Equal(t, 401, a.Code)
	require.Equal(t, dashboard, allowed(a), "the page may read why")
	a = g.Do("GET", rest.Prefix+"/jobs", "", "Origin", "https://evil.example.com")
	require.Equal(t, 200, a.Code, "the token is good; that the page cannot read the answer is the browser's part")
	require.Empty(t, allowed(a))
	require.Contains(t, a.Header.Get("Vary"), "Origin", "or a cache gives it to the others")
	a = g.Do("OPTIONS", rest.Prefix+"/jobs", "", "Authorization", "")
	require.Equal(t, 204, a.Code)
	require.Contains(t, a.Header.Get("Allow"), "POST", "what is no preflight is answered as ever")
}

func TestCORS_originsAreChecked(t *testing.T) {
	for _, good := range []string{dashboard, "http://localhost:5173", "https://10.0.0.1:8443", "http://[::1]:3000"} {
		require.NoError(t, origins.Check(good), good)
	}
	for _, bad := range []string{
		"", "*", "null", "https://*.example.com", "dashboard.example.com", "https://dashboard.example.com/", "https://Dashboard.example.com", "HTTPS://dashboard.example.com",
		"https://u:p@dashboard.example.com", "https://dashboard.example.com?x", "https://dashboard.example.com#x", "ftp://dashboard.example.com", "https://", "https://h:443", "http://h:80", "https://h:",
		"file:///x", "https://a https://b",
	} {
		require.Error(t, origins.Check(bad), bad)
		config := gatewaytest.Config(gatewaytest.NewCoordinator(t))
		config.CORSOrigins = []string{bad}
		require.ErrorContains(t, config.Validate(), "cors_origins", bad)
	}
}
