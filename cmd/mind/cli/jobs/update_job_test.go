package jobs_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestUpdate_sendsWhatTheFlagsSay(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("PATCH /jobs/a", clitest.Answer(200, `{"job_id":"a","status":"QUEUED"}`))
	out := clitest.Done(t, "update", "a", "--priority", "9", "--gpus", "4", "--gpu-type", "A100", "--time-limit", "3d", "--label", "x=1", "--label", "y=", "--queue", "large",
		"--max-retries", "2", "--memory", "1Gi", "--restart=false", "--begin", "2030-01-02T03:04:05Z", "--preemptible")
	require.Equal(t, "a QUEUED\n", out)
	require.JSONEq(t, `{"labels":{"x":"1","y":""},"resource_config":{"gpu_count":4,"gpu_type":"A100","memory_mb":1024},
		"scheduling_config":{"priority":9,"queue":"large","max_retries":2,"max_runtime_seconds":259200,"restartable":false,"not_before":"2030-01-02T03:04:05Z","preemptible":true}}`, g.Bodies[0])

	require.Contains(t, clitest.Fails(t, "update", "a"), "nothing to change")
	require.Contains(t, clitest.Fails(t, "update", "a", "--time-limit", "soon"), "it must be a time such as")
	require.Contains(t, clitest.Fails(t, "update", "a", "--gpus", "-1"), "--gpus: -1: it must be 0 or more")
	require.Contains(t, clitest.Fails(t, "update", "a", "--queue", ""), "a job is always in one")
	clitest.Done(t, "update", "a", "--gpus", "0", "--gpu-type", "", "--memory", "", "--node-selector", "", "--exclude", "", "--retry-on", "")
	require.JSONEq(t, `{"resource_config":{"gpu_count":0,"gpu_type":"","memory_mb":0,"node_selector":{},"exclude_nodes":[]},"scheduling_config":{"retry_on":[]}}`, g.Bodies[1])
	require.Contains(t, clitest.Fails(t, "update", "a", "--begin", "noon", "--label", "x"), "--label")
}

func TestHold_andRelease(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /jobs/a/hold", clitest.Answer(200, `{"job_id":"a","status":"QUEUED"}`))
	g.On("POST /jobs/a/release", clitest.Answer(200, `{"job_id":"a","status":"QUEUED"}`))
	require.Equal(t, "a QUEUED\n", clitest.Done(t, "hold", "a", "--reason", "why"))
	require.JSONEq(t, `{"reason":"why"}`, g.Bodies[0])
	require.Equal(t, "a QUEUED\n", clitest.Done(t, "release", "a"))
}

// answers gives one answer after the other, and the last one again and again.
func answers(texts ...string) http.HandlerFunc {
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		clitest.Answer(200, texts[min(n, len(texts)-1)])(w, r)
		n++
	}
}

func TestPause_waits(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /jobs/a/pause", clitest.Answer(200, `{"job_id":"a","status":"TRAINING","stopping":"PAUSE"}`))
	g.On("GET /jobs/a", answers(`{"job_id":"a","status":"TRAINING","stopping":"PAUSE"}`, `{"job_id":"a","status":"PAUSED"}`))
	require.Equal(t, "a TRAINING\n", clitest.Done(t, "pause", "a"))
	require.Equal(t, "a PAUSED\n", clitest.Done(t, "pause", "a", "--wait"))
	g.On("GET /jobs/a", clitest.Answer(200, `{"job_id":"a","status":"COMPLETED"}`))
	stdout, stderr, code := clitest.Run(t, "pause", "a", "--wait")
	require.Equal(t, 1, code)
	require.Equal(t, "a COMPLETED\n", stdout)
	require.Contains(t, stderr, "a ended before it was to pause")
	g.On("POST /jobs/a/cancel", clitest.Answer(200, `{"job_id":"a","status":"TRAINING","stopping":"CANCEL"}`))
	g.On("GET /jobs/a", answers(`{"job_id":"a","status":"TRAINING","stopping":"CANCEL"}`, `{"job_id":"a","status":"CANCELLED"}`))
	require.JSONEq(t, `{"job_id":"a","status":"CANCELLED"}`, clitest.Done(t, "cancel", "a", "--wait", "-o", "json"))
}

func TestCancel_choosesJobsByWhatTheyHaveInCommon(t *testing.T) {
	g := clitest.NewGateway(t)
	var query string
	g.On("GET /jobs", func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		clitest.Answer(200, `{"jobs":[{"job_id":"a","status":"QUEUED","name":"one"},{"job_id":"b","status":"TRAINING","name":"two"}],"next_page_token":"","total_count":2}`)(w, r)
	})
	for _, id := range []string{"a", "b"} {
		g.On("POST /jobs/"+id+"/cancel", clitest.Answer(200, fmt.Sprintf(`{"job_id":%q,"status":"CANCELLED"}`, id)))
	}
	stdout, stderr, code := clitest.RunAsked(t, "n\n", "cancel", "--label", "k=v")
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "  a  QUEUED  one\n  b  TRAINING  two\ncancel 2 jobs? [y/N] ")
	require.Contains(t, stderr, "nothing was changed")
	require.NotContains(t, g.Asked, "POST /jobs/a/cancel")
	require.Contains(t, query, "label=k%3Dv")
	require.Contains(t, query, "status=TRAINING")
	require.NotContains(t, query, "COMPLETED")

	stdout, _, code = clitest.RunAsked(t, "y\n", "cancel", "--label", "k=v")
	require.Zero(t, code)
	require.Equal(t, "a CANCELLED\nb CANCELLED\n", stdout)
	require.Equal(t, "a CANCELLED\nb CANCELLED\n", clitest.Done(t, "cancel", "--user", "me", "--status", "queued,training", "--yes"))
	require.Contains(t, query, "status=QUEUED&status=TRAINING&user=me")

	require.Contains(t, clitest.Fails(t, "cancel"), "mind cancel --label team=vision")
	require.Contains(t, clitest.Fails(t, "cancel", "a", "--queue", "q"), "either ids")
	g.On("GET /jobs", clitest.Answer(200, `{"jobs":[],"total_count":0}`))
	require.Contains(t, clitest.Fails(t, "cancel", "--queue", "q", "--yes"), "no job to cancel is so")
}

// A script cannot be asked.
func TestCancel_asksNobodyWithoutATerminal(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs", clitest.Answer(200, `{"jobs":[{"job_id":"a","status":"QUEUED"}],"total_count":1}`))
	stdin := os.Stdin
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { os.Stdin = stdin; null.Close() }()
	os.Stdin = null
	require.Contains(t, clitest.Fails(t, "cancel", "--queue", "q"), "give --yes")
	require.NotContains(t, g.Asked, "POST /jobs/a/cancel")
}

func TestJobs_sinceAndSeveralStatuses(t *testing.T) {
	g := clitest.NewGateway(t)
	var query string
	g.On("GET /jobs", func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		clitest.Answer(200, `{"jobs":[{"job_id":"new","created_at":"2026-06-02T00:00:00Z"},{"job_id":"old","created_at":"2026-05-01T00:00:00Z"}],"total_count":2}`)(w, r)
	})
	out := clitest.Done(t, "jobs", "--status", "queued,TRAINING", "--since", "2026-06-01")
	require.Contains(t, query, "status=QUEUED&status=TRAINING")
	require.Contains(t, out, "new")
	require.NotContains(t, out, "old")
	require.Contains(t, clitest.Fails(t, "jobs", "--since", "whenever"), "--since: ")
}
