package cluster_test

import (
	"fmt"
	"net/http"
	"strings"
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

// On a busy cluster the stream is never quiet. It is left at the first event that is newer than the call.
func TestEvents_withoutFollowEndOnABusyCluster(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Mind-Index", "6")
		fmt.Fprint(w, `{"status":"success","data":{"jobs":[]}}`)
	})
	g.On("GET /events", func(w http.ResponseWriter, r *http.Request) {
		for index := 5; r.Context().Err() == nil; index++ {
			fmt.Fprintf(w, "id: %d.0\nevent: node\ndata: {\"index\":%d,\"topic\":\"node\",\"nodes\":[\"n%d\"],\"node_to\":\"READY\"}\n\n", index, index, index)
			w.(http.Flusher).Flush()
		}
	})
	stdout, stderr, code := clitest.Run(t, "events", "--quiet", "1h")
	require.Zero(t, code, stderr)
	require.Equal(t, 2, strings.Count(stdout, "READY"))
}
