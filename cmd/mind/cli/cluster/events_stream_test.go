package cluster_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestEvents_withoutFollowShowWhatIsRemembered(t *testing.T) {
	g := clitest.NewGateway(t)
	var since string
	g.On("GET /events", func(w http.ResponseWriter, r *http.Request) {
		since = r.URL.Query().Get("since_index")
		fmt.Fprint(w, "id: 5.0\nevent: node\ndata: {\"index\":5,\"topic\":\"node\",\"nodes\":[\"n1\"],\"node_to\":\"READY\"}\n\nevent: error\ndata: {\"error\":\"stream ended\"}\n\n")
	})
	stdout, stderr, code := clitest.Run(t, "events")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "n1 READY")
	require.Equal(t, "0", since)
}
