package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

func TestAddress_asPeopleWriteIt(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs", clitest.Answer(200, `{"jobs":[],"total_count":0}`))
	host := strings.TrimPrefix(g.URL, "http://")
	for _, addr := range []string{host, host + "/", g.URL + "///", " " + g.URL + "\n", g.URL + target.APIPath, g.URL + target.APIPath + "/"} {
		_, stderr, code := clitest.Run(t, "jobs", "--addr", addr, "--token", " secret\n")
		require.Zero(t, code, "%q: %s", addr, stderr)
	}
	_, stderr, code := clitest.Run(t, "jobs", "--addr", "https://"+host)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "does not speak HTTPS: write http://")

	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = nil
	_, stderr, code = clitest.Run(t, "jobs", "--addr", secure.URL)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "MIND_CACERT or --ca-cert")
	_, stderr, code = clitest.Run(t, "jobs", "--addr", strings.TrimPrefix(secure.URL, "https://"))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "write https://")
}
