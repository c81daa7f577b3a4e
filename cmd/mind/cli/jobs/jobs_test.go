package jobs_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestJobs_fetchesPagesUntilTheLimit(t *testing.T) {
	g := clitest.NewGateway(t)
	var sizes []string
	g.On("GET /jobs", func(w http.ResponseWriter, r *http.Request) {
		sizes = append(sizes, r.URL.Query().Get("page_size")+r.URL.Query().Get("page_token"))
		var jobs []string
		for i := range 100 {
			jobs = append(jobs, fmt.Sprintf(`{"job_id":"job_%d"}`, i))
		}
		clitest.Answer(200, `{"jobs":[`+strings.Join(jobs[:min(100, 130-100*(len(sizes)-1))], ",")+`],"next_page_token":"-more","total_count":500}`)(w, r)
	})
	stdout, stderr, code := clitest.Run(t, "jobs", "--limit", "130")
	require.Zero(t, code, stderr)
	require.Equal(t, []string{"100", "30-more"}, sizes)
	require.Equal(t, 131, strings.Count(stdout, "\n"))
	require.Contains(t, stderr, "130 of 500")
}

// A page of a list with a label filter may be empty without being the last.
func TestJobs_goesOnAfterAPageThatIsEmpty(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("page_token") {
		case "":
			clitest.Answer(200, `{"jobs":[],"next_page_token":"a","total_count":0,"total_count_is_minimum":true}`)(w, r)
		case "a":
			clitest.Answer(200, `{"jobs":[{"job_id":"job_1"}],"next_page_token":"b","total_count":1,"total_count_is_minimum":true}`)(w, r)
		default:
			clitest.Answer(200, `{"jobs":[{"job_id":"job_2"}],"next_page_token":"","total_count":2,"total_count_is_minimum":false}`)(w, r)
		}
	})
	stdout, stderr, code := clitest.Run(t, "jobs", "--label", "run=1")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "job_1")
	require.Contains(t, stdout, "job_2")
	require.Empty(t, stderr)
	_, stderr, code = clitest.Run(t, "jobs", "--label", "run=1", "--limit", "1")
	require.Zero(t, code, stderr)
	require.Equal(t, "1 of at least 1; more with --limit\n", stderr)
}

func TestJob_showsRetriesAndPastAttempts(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1", clitest.Answer(200, `{"job_id":"job_1","status":"QUEUED","attempt":3,"max_retries":5,"stopping":null,
		"retries":{"node_lost":1,"gpu_fault":0,"launch_failed":0,"data_fetch":0,"exit":1,"preempted":0,"drained":2},
		"past_attempts":[{"attempt":1,"nodes":["n1","n2"],"exit_code":null,"error_type":"NODE_LOST","reason":"node n2 was declared lost","started_at":"2026-01-31T08:00:00Z","finished_at":"2026-01-31T09:30:00Z","failed_node":"n2"},
		{"attempt":2,"nodes":["n3"],"exit_code":7,"error_type":"EXIT_NONZERO","reason":"retry","started_at":null,"finished_at":null,"failed_node":""}]}`))
	stdout, stderr, code := clitest.Run(t, "job", "job_1")
	require.Zero(t, code, stderr)
	text := clitest.Squeeze(stdout)
	require.Contains(t, text, "retries 1 of 5; 3 free (node lost 1, drained 2)\n")
	require.Regexp(t, `(?m)^1 n1,n2 1h30m \d+d ago NODE_LOST n2 node n2 was declared lost$`, text)
	require.Contains(t, text, "2 n3 7 EXIT_NONZERO retry")
	require.NotContains(t, text, "stopping")

	g.On("GET /jobs/job_2", clitest.Answer(200, `{"job_id":"job_2","status":"TRAINING","attempt":1,"max_retries":3,"retries":{},"past_attempts":[]}`))
	stdout, _, _ = clitest.Run(t, "job", "job_2")
	require.Contains(t, clitest.Squeeze(stdout), "retries 0 of 3")
	require.NotContains(t, stdout, "FAILED ON")
	require.NotContains(t, stdout, "dropped")

	g.On("GET /jobs/job_3", clitest.Answer(200, `{"job_id":"job_3","status":"FAILED","attempt":1,"request_dropped":true}`))
	stdout, _, _ = clitest.Run(t, "job", "job_3")
	require.Contains(t, clitest.Squeeze(stdout), "request dropped, because the job ended long ago: it cannot be retried")
}
