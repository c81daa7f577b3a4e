package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// served starts a gateway that listens; raw sends bytes to it, and reads the answer.
func served(t *testing.T, c *gatewaytest.Coordinator) (raw func(bytes string) (first string, rest string)) {
	t.Helper()
	config := gatewaytest.Config(c)
	var err error
	config.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := config.Listener.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- gateway.Run(ctx, config) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return func(bytes string) (string, string) {
		t.Helper()
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, _ = io.WriteString(conn, bytes) // the server may close the connection during the write
		in := bufio.NewReader(conn)
		first, _ := in.ReadString('\n')
		rest, _ := io.ReadAll(in)
		return strings.TrimSpace(first), string(rest)
	}
}

// Requests that two servers in a row could read differently are refused, or read according to the standard and once
// only: no request is smuggled behind another one.
func TestAttacks_requestsWithinRequests(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	raw := served(t, c)
	const head = "Host: mind\r\nAuthorization: Bearer " + gatewaytest.TokenAll + "\r\n"
	hidden := "POST " + rest.Prefix + "/jobs/job_1/cancel HTTP/1.1\r\n" + head + "Connection: close\r\nContent-Length: 2\r\n\r\n{}"
	for name, tc := range map[string]struct {
		request string
		want    []string // the status line has one of them
	}{
		"two lengths":               {"GET /v1/me HTTP/1.1\r\n" + head + "Content-Length: 0\r\nContent-Length: 9\r\n\r\n" + hidden, []string{" 400 "}},
		"a length that is a sum":    {"GET /v1/me HTTP/1.1\r\n" + head + "Content-Length: +0\r\n\r\n" + hidden, []string{" 400 "}},
		"an unknown encoding":       {"GET /v1/me HTTP/1.1\r\n" + head + "Transfer-Encoding: xchunked\r\n\r\n" + hidden, []string{" 501 ", " 400 "}},
		"two encodings":             {"GET /v1/me HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden, []string{" 501 ", " 400 "}},
		"a space before the colon":  {"GET /v1/me HTTP/1.1\r\n" + head + "Content-Length : 0\r\n\r\n" + hidden, []string{" 400 "}},
		"a folded header":           {"GET /v1/me HTTP/1.1\r\n" + head + "X-A: b\r\n c\r\nContent-Length: x\r\n\r\n" + hidden, []string{" 400 "}},
		"a NUL in a header":         {"GET /v1/me HTTP/1.1\r\n" + head + "X-A: b\x00c\r\n\r\n" + hidden, []string{" 400 "}},
		"no host":                   {"GET /v1/me HTTP/1.1\r\nAuthorization: Bearer " + gatewaytest.TokenAll + "\r\n\r\n" + hidden, []string{" 400 "}},
		"two hosts":                 {"GET /v1/me HTTP/1.1\r\nHost: a\r\n" + head + "\r\n" + hidden, []string{" 400 "}},
		"a chunk with a bad length": {"POST " + rest.Prefix + "/jobs/job_1/pause HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n" + hidden, []string{" 400 "}},
		// It is answered with the settings of HTTP/2, a frame of type 4, and then closed.
		"HTTP/2 that is none":       {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden, []string{"\x04\x00\x00\x00\x00\x00"}},
		"headers without end":       {"GET /v1/me HTTP/1.1\r\n" + head + strings.Repeat("X-A: "+strings.Repeat("b", 1000)+"\r\n", 100) + "\r\n" + hidden, []string{" 431 "}},
		"a token as long as a book": {"GET /v1/me HTTP/1.1\r\nHost: mind\r\nAuthorization: Bearer " + strings.Repeat("x", 100_000) + "\r\n\r\n" + hidden, []string{" 431 "}},
		"no HTTP at all":            {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" + hidden, []string{" 400 "}},
	} {
		t.Run(name, func(t *testing.T) {
			first, rest := raw(tc.request)
			// The connection of a request that is far too long is closed while it is sent, and the answer may be lost.
			matches := len(tc.request) > 64<<10 && first == ""
			for _, want := range tc.want {
				matches = matches || strings.Contains(first+" ", want)
			}
			require.True(t, matches, "%q\n%s", first, rest)
			require.NotContains(t, rest, "HTTP/1.1 200", "nothing behind it is answered")
			require.Empty(t, c.Calls(), "nothing is called")
		})
	}
	// According to the standard, a length beside chunks is ignored: a complete request follows the chunks.
	first, _ := raw("GET /v1/me HTTP/1.1\r\n" + head + "Content-Length: 9999\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n" + hidden)
	require.Contains(t, first, " 200 ")
	require.Empty(t, c.Calls())
}

// The caller's identity comes from the token, whatever headers the request has.
func TestAttacks_headersAreNotHandedOn(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	var headers []string
	for _, name := range []string{
		status.KeyTenant, status.KeyUser, status.KeySecret, status.KeyOperator, status.KeyToken, status.KeyForwarded, status.KeyDriveToken, status.KeyAtlasToken, status.KeyMember,
		"X_Tenant_Id", "X-Scaigrid-Tenant-Id", "Grpc-Metadata-" + status.KeyTenant, "Grpc-Timeout", "X-Original-Url", "X-Http-Method-Override", "X-Forwarded-User",
		"X-Forwarded-For", "Forwarded", "Connection", "Cookie",
	} {
		headers = append(headers, name, "forged")
	}
	a := g.Do("GET", rest.Prefix+"/jobs/job_1", "", headers...)
	require.Equal(t, 200, a.Code, a.Body)
	call := c.Calls()[0]
	require.Equal(t, "GetJob", call.Method)
	require.Equal(t, []string{"acme"}, call.MD[status.KeyTenant])
	require.Equal(t, []string{"ann"}, call.MD[status.KeyUser])
	require.Equal(t, []string{"secret"}, call.MD[status.KeySecret])
	for key, values := range call.MD {
		require.NotContains(t, values, "forged", key)
	}
	for _, key := range []string{status.KeyOperator, status.KeyToken, status.KeyForwarded, status.KeyDriveToken, status.KeyAtlasToken, status.KeyMember} {
		require.Empty(t, call.MD[key], key)
	}
}

func TestAttacks_bearer(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	config := gatewaytest.Config(c)
	g := gatewaytest.NewGate(t, config)
	ask := func(change func(*http.Request)) int {
		r := httptest.NewRequest("GET", "/v1/me", nil)
		change(r)
		w := httptest.NewRecorder()
		g.Handler.ServeHTTP(w, r)
		return w.Code
	}
	with := func(values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Authorization"] = values }
	}
	for name, tc := range map[string]struct {
		change func(*http.Request)
		code   int
	}{
		"as it should be":           {with("Bearer " + gatewaytest.TokenAll), 200},
		"in small letters":          {with("bearer " + gatewaytest.TokenAll), 200},
		"in capitals":               {with("BEARER " + gatewaytest.TokenAll), 200},
		"more spaces":               {with("Bearer   " + gatewaytest.TokenAll + "  "), 200},
		"a tab":                     {with("Bearer\t" + gatewaytest.TokenAll), 401},
		"no space":                  {with("Bearer" + gatewaytest.TokenAll), 401},
		"a token in capitals":       {with("Bearer " + strings.ToUpper(gatewaytest.TokenAll)), 401},
		"two tokens, one is good":   {with("Bearer "+gatewaytest.TokenAll, "Bearer nobody"), 401},
		"two tokens, the other one": {with("Bearer nobody", "Bearer "+gatewaytest.TokenAll), 401},
		"the same one twice":        {with("Bearer "+gatewaytest.TokenAll, "Bearer "+gatewaytest.TokenAll), 401},
		"two tokens in one line":    {with("Bearer " + gatewaytest.TokenAll + ", Bearer nobody"), 401},
		"two schemes":               {with("Basic dTpw, Bearer " + gatewaytest.TokenAll), 401},
		"an empty one before it":    {with("", "Bearer "+gatewaytest.TokenAll), 401},
		"in the query": {func(r *http.Request) {
			r.URL.RawQuery = "access_token=" + gatewaytest.TokenAll + "&token=" + gatewaytest.TokenAll
		}, 401},
		"in a cookie": {func(r *http.Request) {
			r.Header.Set("Cookie", "token="+gatewaytest.TokenAll+"; Authorization=Bearer "+gatewaytest.TokenAll)
		}, 401},
		"in a header of another name": {func(r *http.Request) {
			r.Header.Set("X-Api-Key", gatewaytest.TokenAll)
			r.Header.Set("Proxy-Authorization", "Bearer "+gatewaytest.TokenAll)
		}, 401},
		"as the user of the address": {func(r *http.Request) { r.URL.User = nil; r.SetBasicAuth(gatewaytest.TokenAll, "") }, 401},
	} {
		require.Equal(t, tc.code, ask(tc.change), name)
	}
}

// A write may have only one key. An empty one is no key: the caller believes that a repeat is safe.
func TestAttacks_twoIdempotencyKeysOrAnEmptyOne(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	for _, keys := range [][]string{{"a", "b"}, {""}} {
		r := httptest.NewRequest("POST", rest.Prefix+"/jobs", strings.NewReader(`{"name":"x"}`))
		r.Header["Authorization"], r.Header["Idempotency-Key"] = []string{"Bearer " + gatewaytest.TokenAll}, keys
		w := httptest.NewRecorder()
		g.Handler.ServeHTTP(w, r)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	}
	require.Empty(t, c.Calls())
}

// A token counts as one token for the limit, however it is written.
func TestAttacks_aTokenIsLimitedHoweverItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := gatewaytest.Config(gatewaytest.NewCoordinator(t))
		config.RateLimits.Token = 3
		g := gatewaytest.NewGate(t, config)
		var codes []int
		for i, scheme := range []string{"Bearer ", "bearer ", "BEARER ", "bEARER ", "Bearer   "} {
			codes = append(codes, g.Do("GET", "/v1/me", "", "Authorization", scheme+gatewaytest.TokenAll+strings.Repeat(" ", i)).Code)
		}
		require.Equal(t, []int{200, 200, 200, 429, 429}, codes)
	})
}

// Pages of other origins get no access: no answer allows them to read it, and the answer to a preflight only lists
// methods.
func TestAttacks_otherOrigins(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	for _, r := range allRoutes() {
		path := pathOf(r)
		a := g.Do("OPTIONS", path, "", "Origin", "https://evil.example", "Access-Control-Request-Method", r.Method, "Access-Control-Request-Headers", "authorization")
		require.Equal(t, http.StatusNoContent, a.Code, path)
		requireNoCORS(t, a)
	}
	for _, origin := range []string{"https://evil.example", "null", "http://localhost"} {
		requireNoCORS(t, g.Do("GET", rest.Prefix+"/cluster", "", "Origin", origin))
		requireNoCORS(t, g.Do("GET", rest.Prefix+"/cluster", "", "Origin", origin, "Authorization", ""))
	}
}

func requireNoCORS(t *testing.T, a *gatewaytest.Answer) {
	t.Helper()
	for name := range a.Header {
		require.False(t, strings.HasPrefix(name, "Access-Control-"), fmt.Sprint(a.Header))
	}
}
