package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// squeeze makes tables comparable: one space between columns.
func squeeze(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestNodes_showWhatIsWrong(t *testing.T) {
	g := newGateway(t)
	g.on("GET /cluster/nodes", data(200, `{"nodes":[
		{"node_id":"n1","state":"READY","gpus":[{"index":0,"gpu_type":"H100","health":"HEALTHY"}],"unreachable_since":null,"drain_deadline":null,"reason":""},
		{"node_id":"n2","state":"UNREACHABLE","gpus":[],"tasks":2,"unreachable_since":"2026-01-31T08:00:00Z","last_seen_at":null,"reason":"it renews through its peers"},
		{"node_id":"n3","state":"LOST","gpus":[],"unreachable_since":"2026-01-31T08:00:00Z","reason":"declared lost"},
		{"node_id":"n4","state":"DRAINING","gpus":[],"tasks":1,"drain_deadline":"2026-01-31T09:00:00Z","reason":"new fans"},
		{"node_id":"n5","state":"READY","gpus":[
			{"index":0,"gpu_type":"H100","health":"QUARANTINED","health_reason":"a process is left on it"},{"index":1,"gpu_type":"H100","health":"VANISHED"},
			{"index":2,"gpu_type":"H100","health":"QUARANTINED"},{"index":3,"gpu_type":"H100","health":"QUARANTINED"}]}]}`))
	stdout, stderr, code := mind(t, "nodes")
	require.Zero(t, code, stderr)
	lines := strings.Split(squeeze(stdout), "\n")
	require.Len(t, lines, 6)
	require.NotContains(t, lines[1], "since")
	require.Contains(t, lines[2], "n2 UNREACHABLE")
	require.Regexp(t, `ago .*since 2026-01-3\d \d\d:\d\d:\d\d; it renews through its peers$`, lines[2])
	require.Regexp(t, `n3 LOST .*since .*; declared lost$`, lines[3])
	require.Regexp(t, `n4 DRAINING .*new fans; what still runs is stopped at \d\d:\d\d:\d\d$`, lines[4])
	require.Contains(t, lines[5], "GPU 0 QUARANTINED (a process is left on it); GPU 1 VANISHED; GPU 2 QUARANTINED; and 1 more GPUs: see `mind nodes n5`")

	g.on("GET /cluster/nodes/n5", data(200, `{"node_id":"n5","state":"READY","gpus":[{"index":0,"gpu_type":"H100","health":"HEALTHY","job_id":"job_1","memory_mb":81559,"memory_used_mb":40000,"utilization":0.756},{"index":2,"gpu_type":"H100","health":"HEALTHY","memory_mb":81559,"memory_used_mb":0,"utilization":0},{"index":1,"memory_used_mb":null,"utilization":null,"gpu_type":"H100","health":"QUARANTINED","health_reason":"Xid 79"}]}`))
	stdout, _, code = mind(t, "nodes", "n5")
	require.Zero(t, code)
	require.Contains(t, squeeze(stdout), "n5 READY 3xH100 (1 unhealthy) 0 38% 0", "the mean of those of which it is known")
	require.Contains(t, squeeze(stdout), "0 H100 HEALTHY 76% 39.1 GiB of 79.6 GiB job_1\n2 H100 HEALTHY 0% 0 B of 79.6 GiB\n1 H100 QUARANTINED - - Xid 79")
}

func TestDrain_previewIsATableAndDoesNothing(t *testing.T) {
	g := newGateway(t)
	g.on("POST /cluster/nodes/n1/drain", data(200, `{"node_id":"n1","state":"READY","tasks":3,"effects":[
		{"job_id":"job_1","name":"a","effect":"is stopped at the deadline and requeued","stops_at":"2026-01-31T09:00:00Z","resumes_from":"ckpt_1"},
		{"job_id":"job_2","name":"b","effect":"is stopped at the deadline and requeued","stops_at":"2026-01-31T09:00:00Z","resumes_from":""},
		{"job_id":"","name":"","effect":"runs to its end","stops_at":null,"resumes_from":""}]}`))
	stdout, stderr, code := mind(t, "drain", "n1", "--dry-run", "--deadline", "10m")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"force":false,"deadline_seconds":600,"dry_run":true}`, g.bodies[0])
	table := squeeze(stdout)
	require.Regexp(t, `(?m)^job_1 a is stopped at the deadline and requeued 2026-01-3\d \d\d:\d\d:\d\d ckpt_1$`, table)
	require.Regexp(t, `(?m)^job_2 b is stopped .* the beginning$`, table)
	require.Regexp(t, `(?m)^- \(another tenant's\) runs to its end$`, table)
	require.Equal(t, "nothing was done: n1 is READY\n", stderr)

	g.on("POST /cluster/nodes/n2/drain", data(200, `{"node_id":"n2","state":"READY","effects":[]}`))
	stdout, _, code = mind(t, "drain", "n2", "--dry-run")
	require.Zero(t, code)
	require.Equal(t, "nothing runs on n2\n", stdout)
	_, stderr, code = mind(t, "drain", "n2", "--dry-run", "--wait")
	require.Equal(t, 2, code, stderr)
}

func TestDrain_waitTellsHowFarItIs(t *testing.T) {
	g := newGateway(t)
	g.on("POST /cluster/nodes/n1/drain", data(200, `{"node_id":"n1","state":"DRAINING","tasks":2,"effects":[]}`))
	asked := 0
	g.on("GET /cluster/nodes/n1", func(w http.ResponseWriter, r *http.Request) {
		switch asked++; asked {
		case 1, 2:
			data(200, `{"node_id":"n1","state":"DRAINING","tasks":2}`)(w, r)
		case 3:
			refuse(503, "UNAVAILABLE", "no coordinator leads")(w, r)
		case 4:
			data(200, `{"node_id":"n1","state":"DRAINING","tasks":1}`)(w, r)
		default:
			data(200, `{"node_id":"n1","state":"DRAINED","tasks":0}`)(w, r)
		}
	})
	stdout, stderr, code := mind(t, "drain", "n1", "--wait")
	require.Zero(t, code, stderr)
	require.Equal(t, "n1 DRAINED\n", stdout)
	require.Equal(t, "n1 DRAINING, 2 tasks left\nn1 DRAINING, 1 tasks left\n", stderr)

	g.on("GET /cluster/nodes/n1", data(200, `{"node_id":"n1","state":"READY"}`))
	_, stderr, code = mind(t, "drain", "n1", "--wait")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "somebody enabled it")
	g.on("GET /cluster/nodes/n1", refuse(404, "NOT_FOUND", "there is no node n1"))
	_, stderr, code = mind(t, "drain", "n1", "--wait")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "somebody ran `mind node forget`")
	g.on("POST /cluster/nodes/n1/enable", data(200, `{"node_id":"n1","state":"READY","tasks":1}`))
	stdout, _, code = mind(t, "enable", "n1")
	require.Zero(t, code)
	require.Equal(t, "n1 READY, 1 tasks still run there\n", stdout)
}

// mindAsked is mind with somebody at the keyboard.
func mindAsked(t *testing.T, in string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := &cobra.Command{Use: "mind", SilenceErrors: true, SilenceUsage: true}
	AddTo(root, "v1.2.3")
	var out, errs bytes.Buffer
	root.SetIn(strings.NewReader(in))
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	code = Report(&errs, root.ExecuteContext(t.Context()))
	return out.String(), errs.String(), code
}

func TestForget_asksForTheName(t *testing.T) {
	g := newGateway(t)
	g.on("GET /cluster/nodes/n1", data(200, `{"node_id":"n1","state":"LOST","tasks":2,"unreachable_since":"2026-01-31T08:00:00Z"}`))
	g.on("DELETE /cluster/nodes/n1", data(200, `{"node_id":"n1"}`))
	for _, wrong := range []string{"", "y\n", "n2\n"} {
		stdout, stderr, code := mindAsked(t, wrong, "node", "forget", "n1")
		require.Equal(t, 1, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "n1 is LOST since")
		require.Contains(t, stderr, "Its tasks (2)")
		require.Contains(t, stderr, "nothing was done")
	}
	require.NotContains(t, g.asked, "DELETE /cluster/nodes/n1")
	stdout, stderr, code := mindAsked(t, "n1\n", "node", "forget", "n1")
	require.Zero(t, code, stderr)
	require.Equal(t, "n1 forgotten\n", stdout)
	require.Equal(t, "DELETE /cluster/nodes/n1", g.asked[len(g.asked)-1])
	require.NotEmpty(t, g.keys[len(g.keys)-1])

	stdout, stderr, code = mind(t, "node", "forget", "n1", "--yes")
	require.Zero(t, code, stderr)
	require.Equal(t, "n1 forgotten\n", stdout)
	g.on("DELETE /cluster/nodes/n1", refuse(409, "FAILED_PRECONDITION", "node n1 is in session: stop its agent first"))
	_, stderr, code = mind(t, "node", "forget", "n1", "--yes")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "stop its agent first")

	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	cmd := &cobra.Command{}
	cmd.SetIn(null)
	require.ErrorContains(t, confirmForget(cmd, "n1", &node{}), "--yes")
}

func TestJob_showsRetriesAndPastAttempts(t *testing.T) {
	g := newGateway(t)
	g.on("GET /jobs/job_1", data(200, `{"job_id":"job_1","status":"QUEUED","attempt":3,"max_retries":5,"stopping":null,
		"retries":{"node_lost":1,"gpu_fault":0,"launch_failed":0,"data_fetch":0,"exit":1,"preempted":0,"drained":2},
		"past_attempts":[{"attempt":1,"nodes":["n1","n2"],"exit_code":null,"error_type":"NODE_LOST","reason":"node n2 was declared lost","started_at":"2026-01-31T08:00:00Z","finished_at":"2026-01-31T09:30:00Z","failed_node":"n2"},
		{"attempt":2,"nodes":["n3"],"exit_code":7,"error_type":"EXIT_NONZERO","reason":"retry","started_at":null,"finished_at":null,"failed_node":""}]}`))
	stdout, stderr, code := mind(t, "job", "job_1")
	require.Zero(t, code, stderr)
	text := squeeze(stdout)
	require.Contains(t, text, "retries 2 of 5 (node lost 1, exit 1, drained 2)\n")
	require.Regexp(t, `(?m)^1 n1,n2 1h30m \d+d ago NODE_LOST n2 node n2 was declared lost$`, text)
	require.Contains(t, text, "2 n3 7 EXIT_NONZERO retry")
	require.NotContains(t, text, "stopping")

	g.on("GET /jobs/job_2", data(200, `{"job_id":"job_2","status":"TRAINING","attempt":1,"max_retries":3,"retries":{},"past_attempts":[]}`))
	stdout, _, _ = mind(t, "job", "job_2")
	require.Contains(t, squeeze(stdout), "retries 0 of 3")
	require.NotContains(t, stdout, "FAILED ON")
}

func TestVerify_misuseAndMissingData(t *testing.T) {
	_, stderr, code := mind(t, "raft", "verify")
	require.Equal(t, 2, code, stderr)
	require.Contains(t, stderr, "which coordinators?")
	dir := t.TempDir()
	_, stderr, code = mind(t, "raft", "verify", "--data-dir", dir)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "there is no log")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "raft"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "raft", "raft.db"), []byte(strings.Repeat("no BoltDB ", 4000)), 0o600))
	stdout, stderr, code := mind(t, "raft", "verify", "--data-dir", dir)
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stderr, "things are wrong with "+dir)
	require.Contains(t, squeeze(stdout), "log store - - meta page 0 is damaged")
	stdout, _, code = mind(t, "raft", "verify", "--data-dir", dir, "-o", "json")
	require.Equal(t, 1, code)
	require.Contains(t, stdout, fmt.Sprintf(`"where": %q`, "log store"))
}
