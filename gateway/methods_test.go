package gateway_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// Load balancers and monitors send HEAD requests.
func TestHead_isGetWithoutTheBody(t *testing.T) {
	g := gatewaytest.Run(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	for _, r := range allRoutes() {
		if r.Method != http.MethodGet {
			continue
		}
		t.Run(r.Path, func(t *testing.T) {
			head, err := g.Request(context.Background(), http.MethodHead, pathOf(r), "", rest.HeaderRequestID, "same")
			require.NoError(t, err)
			body, err := io.ReadAll(head.Body)
			require.NoError(t, err)
			require.NoError(t, head.Body.Close())
			require.Empty(t, body)
			if r.Stream {
				require.Equal(t, http.StatusMethodNotAllowed, head.StatusCode, "a stream has no end, and no length")
				require.Equal(t, "GET, OPTIONS", head.Header.Get("Allow"))
				return
			}
			get, err := g.Request(context.Background(), http.MethodGet, pathOf(r), "", rest.HeaderRequestID, "same")
			require.NoError(t, err)
			body, err = io.ReadAll(get.Body)
			require.NoError(t, err)
			require.NoError(t, get.Body.Close())
			require.NotEmpty(t, body)
			require.Equal(t, get.StatusCode, head.StatusCode)
			get.Header.Del("Date")
			head.Header.Del("Date")
			require.Equal(t, get.Header, head.Header)
			if r.Path != "/metrics" { // the first request changes the counters
				require.EqualValues(t, len(body), head.ContentLength)
			}
		})
	}
	for name, ask := range map[string]struct {
		path  string
		token string
		want  int
	}{
		"no such path":                {rest.Prefix + "/nothing", gatewaytest.TokenAll, http.StatusNotFound},
		"no token":                    {rest.Prefix + "/jobs", "wrong", http.StatusUnauthorized},
		"a path that takes POST only": {rest.Prefix + "/jobs/x/cancel", gatewaytest.TokenAll, http.StatusMethodNotAllowed},
	} {
		resp, err := g.Request(context.Background(), http.MethodHead, ask.path, "", "Authorization", "Bearer "+ask.token)
		require.NoError(t, err, name)
		require.Equal(t, ask.want, resp.StatusCode, name)
		require.NoError(t, resp.Body.Close(), name)
	}
}

func TestOptions_namesTheMethods(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	for path, want := range map[string]string{
		rest.Prefix + "/jobs":                  "GET, HEAD, POST, OPTIONS",
		rest.Prefix + "/jobs/x/cancel":         "POST, OPTIONS",
		rest.Prefix + "/jobs/x/logs":           "GET, OPTIONS",
		rest.Prefix + "/queues/x":              "PUT, DELETE, OPTIONS",
		rest.Prefix + "/launchers/CUSTOM":      "GET, HEAD, PUT, DELETE, OPTIONS",
		rest.Prefix + "/jobs/x/metrics/stream": "GET, OPTIONS",
		"/health/ready":                        "GET, HEAD, OPTIONS",
	} {
		a := g.Do(http.MethodOptions, path, "", "Authorization", "")
		require.Equal(t, http.StatusNoContent, a.Code, path)
		require.Equal(t, want, a.Header.Get("Allow"), path)
		require.Empty(t, a.Body, path)
		require.NotEmpty(t, a.Header.Get("X-Request-Id"), path)
	}
	require.Equal(t, http.StatusNotFound, g.Do(http.MethodOptions, rest.Prefix+"/nothing", "").Code)
}

func TestUnknownPathsAndMethods(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	for _, path := range []string{"/", rest.Prefix, rest.Prefix + "/evaluation", rest.Prefix + "/jobs/", rest.Prefix + "//jobs", rest.Prefix + "/jobs/a/b/c", "/v1/modules/scaicore/jobs"} {
		a := g.Do("GET", path, "", "Authorization", "")
		require.Equal(t, 404, a.Code, path)
		require.Equal(t, "NOT_FOUND", a.Error.Code)
		require.NotEmpty(t, a.Meta.RequestID)
		require.NotEmpty(t, a.Header.Get("X-Mind-Index"))
	}
	a := g.Do("DELETE", rest.Prefix+"/jobs", "")
	require.Equal(t, 405, a.Code)
	require.Equal(t, "METHOD_NOT_ALLOWED", a.Error.Code)
	require.Equal(t, "GET, HEAD, POST, OPTIONS", a.Header.Get("Allow"))
	require.Equal(t, rest.Prefix+"/jobs takes GET or POST, not DELETE", a.Error.Message)
	require.Equal(t, "POST, OPTIONS", g.Do("GET", rest.Prefix+"/jobs/job_1/cancel", "").Header.Get("Allow"))
}
