package jobs_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

// Without a leader an operator can still read from one coordinator with --stale, and the refusal says so.
func TestStale_isSentWithReads(t *testing.T) {
	g := clitest.NewGateway(t)
	busy := clitest.Refuse(503, "UNAVAILABLE", "no coordinator leads")
	stale := func(answer http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Mind-Consistency") != "stale" {
				answer = busy
			}
			answer(w, r)
		}
	}
	g.On("GET /jobs/job_1", stale(clitest.Answer(200, `{"job_id":"job_1","status":"TRAINING"}`)))
	g.On("GET /jobs/job_1/logs", stale(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(logEvent(1) + streamEnd))
	}))
	stdout, stderr, code := clitest.Run(t, "logs", "--stale", "job_1")
	require.Zero(t, code, stderr)
	require.Equal(t, "line 1\n", stdout)
	_, stderr, code = clitest.Run(t, "job", "job_2", "--stale")
	require.Equal(t, 1, code)
	require.NotContains(t, stderr, "--stale")
	g.On("GET /jobs/job_3", busy)
	_, stderr, _ = clitest.Run(t, "job", "job_3")
	require.Contains(t, stderr, "use --stale to read from one coordinator")
	g.On("POST /jobs/job_3/cancel", func(w http.ResponseWriter, r *http.Request) {
		require.Empty(t, r.Header.Get("X-Mind-Consistency"), "it is for reads")
		busy(w, r)
	})
	_, stderr, _ = clitest.Run(t, "cancel", "--stale", "job_3")
	require.NotContains(t, stderr, "use --stale")
}
