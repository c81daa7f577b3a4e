package jobs_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

const lossSeries = `{"job_id":"job_1","missing":["the series of job job_1, attempt 1, rank 1, are missing: node n2 is lost"],"series":[
	{"name":"loss","attempt":1,"rank":0,"unit":"","not_finite":2,"points":[
		{"time":"2026-01-31T08:00:00Z","step":0,"min":4,"max":5,"mean":4.5,"last":4,"count":2},
		{"time":"2026-01-31T08:01:00Z","step":50,"min":2,"max":3,"mean":2.5,"last":2,"count":2}]},
	{"name":"loss","attempt":2,"rank":0,"unit":"","not_finite":0,"points":[
		{"time":"2026-01-31T08:02:00Z","step":100,"min":1,"max":1,"mean":1,"last":1,"count":1}]}]}`

func TestMetrics_plot(t *testing.T) {
	g := clitest.NewGateway(t)
	asked := ""
	g.On("GET /jobs/job_1/metrics/series", func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		clitest.Answer(200, lossSeries)(w, r)
	})
	stdout, _, code := clitest.Run(t, "metrics", "--plot", "job_1")
	require.Zero(t, code)
	require.Equal(t, "name=loss&points=200&rank=0", asked)
	require.Contains(t, stdout, "loss\n5 ┤")
	require.Contains(t, stdout, "step 0")
	require.Contains(t, stdout, "step 100\n")
	require.Contains(t, stdout, "1 attempt 1: 2 at step 50, least 2, greatest 5, 2 times NaN or infinite\n2 attempt 2: 1 at step 100, least 1, greatest 1\n")
	require.Contains(t, stdout, "node n2 is lost\n")

	stdout, _, code = clitest.Run(t, "metrics", "--plot", "--time", "--log", "--rank", "-1", "job_1")
	require.Zero(t, code)
	require.Equal(t, "name=loss&points=200", asked)
	require.Contains(t, stdout, "loss, logarithmic\n")
	require.NotContains(t, stdout, "step 100\n ")

	stdout, _, code = clitest.Run(t, "metrics", "--plot", "-o", "json", "job_1")
	require.Zero(t, code)
	require.Contains(t, stdout, `"not_finite": 2`)
}

func TestMetrics_plotOfWhatIsNotThere(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1/metrics/series", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("name") {
			clitest.Answer(200, `{"series":[],"missing":[]}`)(w, r)
			return
		}
		clitest.Answer(200, lossSeries)(w, r)
	})
	_, stderr, code := clitest.Run(t, "metrics", "--plot", "job_1", "lost")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "the job has no history of lost; name one that it has: loss")

	_, stderr, code = clitest.Run(t, "metrics", "job_1", "loss")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--plot")
}
