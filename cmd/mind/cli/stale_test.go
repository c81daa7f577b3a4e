package cli

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Without a leader an operator can still look: --stale asks for what one coordinator has, and the refusal says so.
func TestStale_isSentWithReads(t *testing.T) {
	g := newGateway(t)
	busy := refuse(503, "UNAVAILABLE", "no coordinator leads")
	stale := func(answer http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Mind-Consistency") != "stale" {
				answer = busy
			}
			answer(w, r)
		}
	}
	g.on("GET /jobs/job_1", stale(data(200, `{"job_id":"job_1","status":"TRAINING"}`)))
	g.on("GET /jobs/job_1/logs", stale(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(logEvent(1) + streamEnd))
	}))
	stdout, stderr, code := mind(t, "logs", "--stale", "job_1")
	require.Zero(t, code, stderr)
	require.Equal(t, "line 1\n", stdout)
	_, stderr, code = mind(t, "job", "job_2", "--stale")
	require.Equal(t, 1, code)
	require.NotContains(t, stderr, "--stale")
	g.on("GET /jobs/job_3", busy)
	_, stderr, _ = mind(t, "job", "job_3")
	require.Contains(t, stderr, "use --stale to see what one coordinator has")
	g.on("POST /jobs/job_3/cancel", func(w http.ResponseWriter, r *http.Request) {
		require.Empty(t, r.Header.Get("X-Mind-Consistency"), "it is for reads")
		busy(w, r)
	})
	_, stderr, _ = mind(t, "cancel", "--stale", "job_3")
	require.NotContains(t, stderr, "use --stale")
}

func TestRaft_errorsSayWhatToDo(t *testing.T) {
	o := &operator{timeout: 10 * time.Second}
	for code, want := range map[codes.Code]string{
		codes.Unauthenticated: "MIND_API_SECRET", codes.PermissionDenied: "--cert", codes.Unavailable: "look whether they run", codes.DeadlineExceeded: "10s",
	} {
		require.ErrorContains(t, o.explain(status.Error(code, "no")), want)
	}
	require.EqualError(t, o.explain(status.Error(codes.NotFound, "there is no peer x")), "no coordinator did it: there is no peer x (notfound)")
}
