package gateway

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway/rest"
)

// Load balancers and monitors send HEAD requests.
func TestHead_isGetWithoutTheBody(t *testing.T) {
	g := runGateway(t, testConfig(newScripted(t)))
	for _, r := range allRoutes() {
		if r.Method != http.MethodGet {
			continue
		}
		t.Run(r.Path, func(t *testing.T) {
			head, err := g.request(context.Background(), http.MethodHead, pathOf(r), "", rest.HeaderRequestID, "same")
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
			get, err := g.request(context.Background(), http.MethodGet, pathOf(r), "", rest.HeaderRequestID, "same")
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
		"no such path":                {prefix + "/nothing", tokenAll, http.StatusNotFound},
		"no token":                    {prefix + "/jobs", "wrong", http.StatusUnauthorized},
		"a path that takes POST only": {prefix + "/jobs/x/cancel", tokenAll, http.StatusMethodNotAllowed},
	} {
		resp, err := g.request(context.Background(), http.MethodHead, ask.path, "", "Authorization", "Bearer "+ask.token)
		require.NoError(t, err, name)
		require.Equal(t, ask.want, resp.StatusCode, name)
		require.NoError(t, resp.Body.Close(), name)
	}
}

func TestOptions_namesTheMethods(t *testing.T) {
	g := newGate(t, testConfig(newScripted(t)))
	for path, want := range map[string]string{
		prefix + "/jobs":                  "GET, HEAD, POST, OPTIONS",
		prefix + "/jobs/x/cancel":         "POST, OPTIONS",
		prefix + "/jobs/x/logs":           "GET, OPTIONS",
		prefix + "/queues/x":              "PUT, DELETE, OPTIONS",
		prefix + "/launchers/CUSTOM":      "GET, HEAD, PUT, DELETE, OPTIONS",
		prefix + "/jobs/x/metrics/stream": "GET, OPTIONS",
		"/health/ready":                   "GET, HEAD, OPTIONS",
	} {
		a := g.do(http.MethodOptions, path, "", "Authorization", "")
		require.Equal(t, http.StatusNoContent, a.code, path)
		require.Equal(t, want, a.header.Get("Allow"), path)
		require.Empty(t, a.body, path)
		require.NotEmpty(t, a.header.Get("X-Request-Id"), path)
	}
	require.Equal(t, http.StatusNotFound, g.do(http.MethodOptions, prefix+"/nothing", "").code)
}

func TestUnknownPathsAndMethods(t *testing.T) {
	g := newGate(t, testConfig(newScripted(t)))
	for _, path := range []string{"/", prefix, prefix + "/evaluation", prefix + "/jobs/", prefix + "//jobs", prefix + "/jobs/a/b/c", "/v1/modules/scaicore/jobs"} {
		a := g.do("GET", path, "", "Authorization", "")
		require.Equal(t, 404, a.code, path)
		require.Equal(t, "NOT_FOUND", a.Error.Code)
		require.NotEmpty(t, a.Meta.RequestID)
		require.NotEmpty(t, a.header.Get("X-Mind-Index"))
	}
	a := g.do("DELETE", prefix+"/jobs", "")
	require.Equal(t, 405, a.code)
	require.Equal(t, "METHOD_NOT_ALLOWED", a.Error.Code)
	require.Equal(t, "GET, HEAD, POST, OPTIONS", a.header.Get("Allow"))
	require.Equal(t, prefix+"/jobs takes GET or POST, not DELETE", a.Error.Message)
	require.Equal(t, "POST, OPTIONS", g.do("GET", prefix+"/jobs/job_1/cancel", "").header.Get("Allow"))
}
