package jobs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func logEvent(id int) string {
	return fmt.Sprintf("id: k%d\nevent: log\ndata: {\"level\":\"INFO\",\"message\":\"line %d\",\"rank\":0}\n\n", id, id)
}

const streamEnd = "event: error\ndata: {\"error\":\"stream ended\"}\n\n"

func TestLogs_aBrokenStreamGoesOnWithoutGapOrRepeat(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1", clitest.Answer(200, `{"job_id":"job_1","status":"TRAINING"}`))
	var resumed []string
	g.On("GET /jobs/job_1/logs", func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		write := func(text string) {
			fmt.Fprint(w, text)
			_ = http.NewResponseController(w).Flush()
		}
		switch len(resumed) {
		case 1: // the stream breaks in the middle of an event
			write(logEvent(1) + ": keepalive\n\n" + logEvent(2) + strings.TrimSuffix(logEvent(3), "\n"))
			panic(http.ErrAbortHandler)
		case 2: // the gateway shuts down
			write(logEvent(3) + ": this gateway is shutting down\n\n")
		case 3: // another gateway that has no coordinator yet
			clitest.Refuse(503, "UNAVAILABLE", "no coordinator leads")(w, r)
		default:
			write(logEvent(4) + streamEnd)
		}
	})
	stdout, stderr, code := clitest.Run(t, "logs", "-f", "job_1")
	require.Zero(t, code, stderr)
	require.Equal(t, "line 1\nline 2\nline 3\nline 4\n", stdout)
	require.Equal(t, []string{"", "k2", "k3", "k3"}, resumed)
}

// With --tail 0 the gateway sends the position at which the stream begins, and a stream that breaks before its first
// line resumes there.
func TestLogs_aStreamThatBreaksBeforeItsFirstLine(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1", clitest.Answer(200, `{"job_id":"job_1","status":"TRAINING"}`))
	var resumed []string
	g.On("GET /jobs/job_1/logs", func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		if len(resumed) == 1 {
			fmt.Fprint(w, "id: k7\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, logEvent(8)+streamEnd)
	})
	stdout, stderr, code := clitest.Run(t, "logs", "-f", "--tail", "0", "job_1")
	require.Zero(t, code, stderr)
	require.Equal(t, "line 8\n", stdout)
	require.Equal(t, []string{"", "k7"}, resumed)
}

func TestLogs_options(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1", clitest.Answer(200, `{"job_id":"job_1","resource_config":{"node_count":2}}`))
	var query string
	g.On("GET /jobs/job_1/logs", func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		fmt.Fprint(w, logEvent(1)+streamEnd)
	})
	stdout, _, code := clitest.Run(t, "logs", "--tail", "0", "--since", "10m", "job_1")
	require.Zero(t, code)
	require.Equal(t, "follow=false&since=10m&tail=0", query)
	require.Equal(t, "[0] line 1\n", stdout, "a job on two nodes has two who speak")

	stdout, _, _ = clitest.Run(t, "logs", "-f", "--rank", "1", "--attempt", "2", "job_1", "-o", "json")
	require.Equal(t, "attempt=2&follow=true&rank=1", query)
	require.JSONEq(t, `{"level":"INFO","message":"line 1","rank":0}`, stdout)
}

func TestLogs_anEndThatIsAnErrorIsTold(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1", clitest.Answer(200, `{"job_id":"job_1"}`))
	g.On("GET /jobs/job_1/logs", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, logEvent(1)+"event: error\ndata: {\"error\":\"stream ended\",\"code\":\"NOT_FOUND\",\"message\":\"its log is gone\"}\n\n")
	})
	stdout, stderr, code := clitest.Run(t, "logs", "-f", "job_1")
	require.Equal(t, 1, code)
	require.Equal(t, "line 1\n", stdout)
	require.Contains(t, stderr, "its log is gone")

	_, stderr, code = clitest.Run(t, "logs", "-f", "job_2")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "no such thing")
}

func TestMetrics_pointAndStream(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1/metrics", clitest.Answer(200, `{"job_id":"job_1","metrics":{"loss":2.25,"a":1,"step":200},"progress":{}}`))
	g.On("GET /jobs/job_1/metrics/stream", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "id: 1\nevent: metrics\ndata: {\"loss\":2.25,\"step\":200,\"tokens_per_second\":12345.678}\n\n"+streamEnd)
	})
	stdout, _, code := clitest.Run(t, "metrics", "job_1")
	require.Zero(t, code)
	require.Equal(t, []string{"METRIC", "VALUE", "step", "200", "loss", "2.25", "a", "1"}, strings.Fields(stdout))
	stdout, _, code = clitest.Run(t, "metrics", "-f", "job_1")
	require.Zero(t, code)
	require.Equal(t, "step 200  loss 2.25  tokens_per_second 12345.7\n", stdout)
}

// Values that are no plain numbers are shown as JSON, always in the same order.
func TestMetrics_showsWhatIsNoPlainNumber(t *testing.T) {
	g := clitest.NewGateway(t)
	const metrics = `{"step":12345678,"loss":0.123456789,"grad":null,"nested":{"b":[1,2.5],"a":"<x>"},"done":true,"tokens":1234567.8,"lr":3e-5,"phase":"warm up","huge":1e300,"note":"a\u001b[31mb"}`
	g.On("GET /jobs/job_1/metrics", clitest.Answer(200, `{"job_id":"job_1","metrics":`+metrics+`,"progress":{}}`))
	g.On("GET /jobs/job_1/metrics/stream", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "id: 1\nevent: metrics\ndata: {\"step\":9,\"loss\":10.5,\"grad\":null}\n\nid: 2\nevent: metrics\ndata: {\"step\":10,\"loss\":9,\"grad\":{\"norm\":1}}\n\n"+streamEnd)
	})
	want := `METRIC  VALUE
step    12345678
loss    0.123457
done    true
grad    null
huge    1e+300
lr      3e-05
nested  {"a":"<x>","b":[1,2.5]}
note    "a\u001b[31mb"
phase   "warm up"
tokens  1234568
`
	for range 5 {
		stdout, stderr, code := clitest.Run(t, "metrics", "job_1")
		require.Zero(t, code, stderr)
		require.Equal(t, want, stdout)
	}
	stdout, _, _ := clitest.Run(t, "metrics", "job_1", "-o", "json")
	var all struct{ Metrics json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(stdout), &all))
	require.JSONEq(t, metrics, string(all.Metrics))

	stdout, stderr, code := clitest.Run(t, "metrics", "-f", "job_1")
	require.Zero(t, code, stderr)
	require.Equal(t, "step 9  loss 10.5  grad null\nstep 10  loss 9     grad {\"norm\":1}\n", stdout)
}
