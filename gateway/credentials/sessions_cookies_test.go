package credentials_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// The cookie has the name and the attributes that fit how the browser reaches the gateway, and no other place gets one.
func TestSessions_whereACookieMayBe(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	keepSessions(c)
	config := gatewaytest.Config(c)
	config.TrustedProxies = []string{"10.0.0.1", "127.0.0.9"}
	g := gatewaytest.NewGate(t, config)
	const secure, plain = "__Host-mind", "mind"
	for name, tc := range map[string]struct {
		headers []string
		want    string
	}{
		"this machine":                          {nil, plain},
		"this machine by its address":           {[]string{"Host", "127.0.0.1:8080"}, plain},
		"this machine by IPv6":                  {[]string{"Host", "[::1]:8080", "Peer", "[::1]:4711"}, plain},
		"another machine":                       {[]string{"Peer", "10.0.0.7:1", "Host", "mind.example"}, ""},
		"another machine that says localhost":   {[]string{"Peer", "10.0.0.7:1"}, ""},
		"a name that leads here":                {[]string{"Host", "evil.example"}, ""},
		"a proxy with HTTPS":                    {[]string{"Peer", "10.0.0.1:1", "Host", "mind.example", "X-Forwarded-Proto", "https", "X-Forwarded-For", "10.9.9.9"}, secure},
		"a proxy that says nothing":             {[]string{"Peer", "10.0.0.1:1", "Host", "mind.example", "X-Forwarded-For", "10.9.9.9"}, ""},
		"a proxy behind one without HTTPS":      {[]string{"Peer", "10.0.0.1:1", "Host", "mind.example", "X-Forwarded-Proto", "https, http"}, ""},
		"a proxy with two answers":              {[]string{"Peer", "10.0.0.1:1", "Host", "mind.example", "X-Forwarded-Proto", "http", "X-Forwarded-Proto", "https"}, ""},
		"another machine that says HTTPS":       {[]string{"Peer", "10.0.0.7:1", "Host", "mind.example", "X-Forwarded-Proto", "https"}, ""},
		"a proxy here for a client elsewhere":   {[]string{"Peer", "127.0.0.9:1", "X-Forwarded-For", "10.0.0.7"}, ""},
		"a proxy here that nobody speaks of":    {[]string{"Host", "mind.example", "X-Forwarded-Proto", "https"}, ""},
		"a page of this machine":                {[]string{"Origin", "http://localhost:5173"}, plain},
		"a page of this machine by its address": {[]string{"Origin", "http://[::1]:5173"}, plain},
		"a page of another machine":             {[]string{"Origin", "http://mind.example"}, ""},
		"a page of another machine, with HTTPS": {[]string{"Origin", "https://mind.example"}, ""},
		"a page of nowhere":                     {[]string{"Origin", "null"}, ""},
		"a page of two origins":                 {[]string{"Origin", "http://localhost", "Origin", "http://mind.example"}, ""},
		"a proxy here that says for whom":       {[]string{"X-Forwarded-For", "10.0.0.7"}, ""},
		"a proxy here that says X-Real-IP":      {[]string{"X-Real-IP", "10.0.0.7"}, ""},
		"a proxy here that says the host":       {[]string{"X-Forwarded-Host", "mind.example"}, ""},
		"a proxy here that says Via":            {[]string{"Via", "1.1 proxy"}, ""},
		"a proxy here that says Forwarded":      {[]string{"Forwarded", "for=10.0.0.7"}, ""},
		"a proxy here with HTTPS, as it should": {[]string{"Peer", "127.0.0.9:1", "Host", "mind.example", "X-Forwarded-Proto", "https"}, secure},
	} {
		t.Run(name, func(t *testing.T) {
			a := page(g, "POST", "/v1/session", "", append([]string{"Authorization", "Bearer " + gatewaytest.TokenAll}, tc.headers...)...)
			if tc.want == "" {
				require.Equal(t, 409, a.Code, a.Body)
				require.Contains(t, a.Error.Message, "needs HTTPS")
				require.Contains(t, a.Error.Message, "trusted_proxies")
				require.Empty(t, a.Header["Set-Cookie"])
				return
			}
			require.Equal(t, 201, a.Code, a.Body)
			cookie, attributes, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
			require.True(t, strings.HasPrefix(cookie, tc.want+"="), cookie)
			require.Equal(t, tc.want == secure, strings.Contains(attributes, "; Secure"))
			require.Equal(t, 200, page(g, "GET", "/v1/session", cookie, tc.headers...).Code)
			// Under the other name it is none.
			_, value, _ := strings.Cut(cookie, "=")
			wrong := map[string]string{secure: plain, plain: secure}[tc.want] + "=" + value
			require.Equal(t, "AUTH_TOKEN_MISSING", page(g, "GET", "/v1/session", wrong, tc.headers...).Error.Code)
			// And elsewhere it is none, whatever the name.
			for _, cookie := range []string{cookie, wrong} {
				require.Equal(t, 401, page(g, "GET", "/v1/session", cookie, "Peer", "10.0.0.7:1", "Host", "mind.example").Code)
			}
		})
	}
}

// A cookie counts only for pages of this origin, only without a token beside it, and only once.
func TestAttacks_cookies(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	keepSessions(c)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	cookie, _ := signIn(g, gatewaytest.TokenAll)
	stolen, _ := signIn(g, gatewaytest.TokenViewer)
	const path, write = rest.Prefix + "/jobs", rest.Prefix + "/jobs/job_1/cancel"
	for name, tc := range map[string]struct {
		method, path, cookie string
		headers              []string
		code                 int
		why                  string
	}{
		"as it should be":               {"GET", path, cookie, nil, 200, ""},
		"a write as it should be":       {"POST", write, cookie, []string{"Origin", "http://localhost"}, 200, ""},
		"beside another cookie":         {"GET", path, "a=b; " + cookie + "; c=d", nil, 200, ""},
		"no Sec-Fetch-Site":             {"GET", path, cookie, []string{"Sec-Fetch-Site", ""}, 401, "AUTH_TOKEN_MISSING"},
		"a write without":               {"POST", write, cookie, []string{"Sec-Fetch-Site", ""}, 401, "AUTH_TOKEN_MISSING"},
		"a write of another origin":     {"POST", write, cookie, []string{"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, 403, "CROSS_ORIGIN_DENIED"},
		"a write of no origin":          {"POST", write, cookie, []string{"Sec-Fetch-Site", "", "Origin", "null"}, 403, "CROSS_ORIGIN_DENIED"},
		"another site reads":            {"GET", path, cookie, []string{"Sec-Fetch-Site", "", "Sec-Fetch-Site", "cross-site"}, 401, "AUTH_TOKEN_MISSING"},
		"another site writes":           {"POST", write, cookie, []string{"Sec-Fetch-Site", "", "Sec-Fetch-Site", "cross-site"}, 403, "CROSS_ORIGIN_DENIED"},
		"another site signs out":        {"DELETE", "/v1/session", cookie, []string{"Sec-Fetch-Site", "", "Sec-Fetch-Site", "cross-site"}, 403, "CROSS_ORIGIN_DENIED"},
		"another port reads":            {"GET", path, cookie, []string{"Sec-Fetch-Site", "", "Sec-Fetch-Site", "same-site"}, 401, "AUTH_TOKEN_MISSING"},
		"another port writes":           {"POST", write, cookie, []string{"Sec-Fetch-Site", "", "Sec-Fetch-Site", "same-site"}, 403, "CROSS_ORIGIN_DENIED"},
		"a link that a user follows":    {"GET", path, cookie, []string{"Sec-Fetch-Site", "", "Sec-Fetch-Site", "none"}, 401, "AUTH_TOKEN_MISSING"},
		"two answers":                   {"GET", path, cookie, []string{"Sec-Fetch-Site", "cross-site"}, 401, "AUTH_TOKEN_MISSING"},
		"two sessions":                  {"GET", path, stolen + "; " + cookie, nil, 401, "AUTH_TOKEN_INVALID"},
		"the same one twice":            {"GET", path, cookie + "; " + cookie, nil, 401, "AUTH_TOKEN_INVALID"},
		"under another name":            {"GET", path, "Mind" + strings.TrimPrefix(cookie, "mind"), nil, 401, "AUTH_TOKEN_MISSING"},
		"what is none":                  {"GET", path, "mind=" + gatewaytest.TokenAll, nil, 401, "AUTH_TOKEN_INVALID"},
		"an unknown one":                {"GET", path, cookie + "x", nil, 401, "AUTH_TOKEN_INVALID"},
		"a token that is wrong":         {"GET", path, cookie, []string{"Authorization", "Bearer nobody"}, 401, "AUTH_TOKEN_INVALID"},
		"an empty token":                {"GET", path, cookie, []string{"Authorization", "Bearer "}, 401, "AUTH_TOKEN_INVALID"},
		"another scheme":                {"GET", path, cookie, []string{"Authorization", "Basic dTpw"}, 401, "AUTH_TOKEN_INVALID"},
		"the secret as a token":         {"GET", path, "", []string{"Authorization", "Bearer " + strings.TrimPrefix(cookie, "mind=")}, 401, "AUTH_TOKEN_INVALID"},
		"the secret as a ticket":        {"GET", rest.Prefix + "/events?ticket=" + strings.TrimPrefix(cookie, "mind="), "", nil, 401, "AUTH_TOKEN_INVALID"},
		"a session for a session":       {"POST", "/v1/session", cookie, nil, 401, "AUTH_TOKEN_MISSING"},
		"a ticket for a session":        {"POST", "/v1/stream-tickets", cookie, nil, 401, "AUTH_TOKEN_MISSING"},
		"sessions of others":            {"GET", "/v1/sessions?all=true", stolen, nil, 403, "AUTHZ_PERMISSION_DENIED"},
		"sessions of others, by tokens": {"GET", "/v1/sessions?all=true", "", []string{"Authorization", "Bearer " + gatewaytest.TokenViewer}, 403, "AUTHZ_PERMISSION_DENIED"},
		"sessions of others, again":     {"GET", "/v1/sessions?all=true&tenant_id=acme", stolen, nil, 403, "AUTHZ_PERMISSION_DENIED"},
		"sessions of another tenant":    {"GET", "/v1/sessions?tenant_id=evil", cookie, nil, 403, "AUTHZ_PERMISSION_DENIED"},
		"a session of another tenant":   {"DELETE", "/v1/sessions/ses_1?tenant_id=evil", cookie, nil, 403, "AUTHZ_PERMISSION_DENIED"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(c.Calls())
			a := page(g, tc.method, tc.path, tc.cookie, tc.headers...)
			require.Equal(t, tc.code, a.Code, a.Body)
			if tc.code == 200 {
				return
			}
			require.Equal(t, tc.why, a.Error.Code)
			for _, call := range c.Calls()[before:] {
				require.Equal(t, "VerifySessions", call.Method, "nothing is done")
			}
		})
	}
	// Both together: the token counts, and the cookie does not.
	a := page(g, "GET", "/v1/me", cookie, "Authorization", "Bearer "+gatewaytest.TokenViewer)
	require.Contains(t, a.Body, `"vic"`)
	// Signing in makes a new session, whatever cookie somebody has planted before.
	planted := page(g, "POST", "/v1/session", stolen, "Authorization", "Bearer "+gatewaytest.TokenAll)
	require.Equal(t, 201, planted.Code)
	fresh, _, _ := strings.Cut(planted.Header.Get("Set-Cookie"), ";")
	require.NotEqual(t, stolen, fresh)
	require.Contains(t, page(g, "GET", "/v1/me", fresh).Body, `"ann"`)
	require.Contains(t, page(g, "GET", "/v1/me", stolen).Body, `"vic"`)
}

// Pages of configured origins get no session to use: cookies are never allowed there.
func TestSessions_notForConfiguredOrigins(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	keepSessions(c)
	config := gatewaytest.Config(c)
	config.CORSOrigins = []string{"https://dashboard.example"}
	g := gatewaytest.NewGate(t, config)
	cookie, _ := signIn(g, gatewaytest.TokenAll)
	from := []string{"Origin", "https://dashboard.example", "Sec-Fetch-Site", "", "Sec-Fetch-Site", "cross-site"}
	a := page(g, "GET", rest.Prefix+"/jobs", cookie, from...)
	require.Equal(t, 401, a.Code)
	require.Empty(t, a.Header.Get("Access-Control-Allow-Credentials"))
	require.Equal(t, 403, page(g, "POST", rest.Prefix+"/jobs/job_1/cancel", cookie, from...).Code)
	require.Equal(t, 200, page(g, "GET", rest.Prefix+"/jobs", "", append(from, "Authorization", "Bearer "+gatewaytest.TokenAll)...).Code)
}
