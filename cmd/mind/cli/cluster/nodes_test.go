package cluster_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestNodes_showWhatIsWrong(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /cluster/nodes", clitest.Answer(200, `{"nodes":[
		{"node_id":"n1","state":"READY","gpus":[{"index":0,"gpu_type":"H100","health":"HEALTHY"}],"unreachable_since":null,"drain_deadline":null,"reason":""},
		{"node_id":"n2","state":"UNREACHABLE","gpus":[],"tasks":2,"unreachable_since":"2026-01-31T08:00:00Z","last_seen_at":null,"reason":"it renews through its peers"},
		{"node_id":"n3","state":"LOST","gpus":[],"unreachable_since":"2026-01-31T08:00:00Z","reason":"declared lost"},
		{"node_id":"n4","state":"DRAINING","gpus":[],"tasks":1,"drain_deadline":"2026-01-31T09:00:00Z","reason":"new fans"},
		{"node_id":"n5","state":"READY","gpus":[
			{"index":0,"gpu_type":"H100","health":"QUARANTINED","health_reason":"a process is left on it"},{"index":1,"gpu_type":"H100","health":"VANISHED"},
			{"index":2,"gpu_type":"H100","health":"QUARANTINED"},{"index":3,"gpu_type":"H100","health":"QUARANTINED"}]}]}`))
	stdout, stderr, code := clitest.Run(t, "nodes")
	require.Zero(t, code, stderr)
	lines := strings.Split(clitest.Squeeze(stdout), "\n")
	require.Len(t, lines, 6)
	require.NotContains(t, lines[1], "since")
	require.Contains(t, lines[2], "n2 UNREACHABLE")
	require.Regexp(t, `ago .*since 2026-01-3\d \d\d:\d\d:\d\d [A-Z0-9+-]+; it renews through its peers$`, lines[2])
	require.Regexp(t, `n3 LOST .*since .*; declared lost$`, lines[3])
	require.Regexp(t, `n4 DRAINING .*new fans; remaining tasks are stopped at \d\d:\d\d:\d\d [A-Z0-9+-]+$`, lines[4])
	require.Contains(t, lines[5], "GPU 0 QUARANTINED (a process is left on it); GPU 1 VANISHED; GPU 2 QUARANTINED; and 1 more GPUs: see `mind nodes n5`")

	g.On("GET /cluster/nodes/n5", clitest.Answer(200, `{"node_id":"n5","state":"READY","gpus":[{"index":0,"gpu_type":"H100","health":"HEALTHY","job_id":"job_1","memory_mb":81559,"memory_used_mb":40000,"utilization":0.756},{"index":2,"gpu_type":"H100","health":"HEALTHY","memory_mb":81559,"memory_used_mb":0,"utilization":0},{"index":1,"memory_used_mb":null,"utilization":null,"gpu_type":"H100","health":"QUARANTINED","health_reason":"Xid 79"}]}`))
	stdout, _, code = clitest.Run(t, "nodes", "n5")
	require.Zero(t, code)
	require.Contains(t, clitest.Squeeze(stdout), "n5 READY 3xH100 (1 unhealthy) 0 38% 0", "the mean of those of which it is known")
	require.Contains(t, clitest.Squeeze(stdout), "0 H100 HEALTHY 76% 39.1 GiB of 79.6 GiB job_1\n2 H100 HEALTHY 0% 0 B of 79.6 GiB\n1 H100 QUARANTINED - - Xid 79")
}

func TestDrain_previewIsATableAndDoesNothing(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /cluster/nodes/n1/drain", clitest.Answer(200, `{"node_id":"n1","state":"READY","tasks":3,"effects":[
		{"job_id":"job_1","name":"a","effect":"is stopped at the deadline and requeued","stops_at":"2026-01-31T09:00:00Z","resumes_from":"ckpt_1"},
		{"job_id":"job_2","name":"b","effect":"is stopped at the deadline and requeued","stops_at":"2026-01-31T09:00:00Z","resumes_from":""},
		{"job_id":"","name":"","effect":"runs to its end","stops_at":null,"resumes_from":""}]}`))
	stdout, stderr, code := clitest.Run(t, "drain", "n1", "--dry-run", "--deadline", "10m")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"force":false,"deadline_seconds":600,"dry_run":true}`, g.Bodies[0])
	table := clitest.Squeeze(stdout)
	require.Regexp(t, `(?m)^job_1 a is stopped at the deadline and requeued 2026-01-3\d \d\d:\d\d:\d\d [A-Z0-9+-]+ ckpt_1$`, table)
	require.Regexp(t, `(?m)^job_2 b is stopped .* the beginning$`, table)
	require.Regexp(t, `(?m)^- \(another tenant's\) runs to its end$`, table)
	require.Equal(t, "nothing was changed: n1 is READY\n", stderr)

	g.On("POST /cluster/nodes/n2/drain", clitest.Answer(200, `{"node_id":"n2","state":"READY","effects":[]}`))
	stdout, _, code = clitest.Run(t, "drain", "n2", "--dry-run")
	require.Zero(t, code)
	require.Equal(t, "nothing runs on n2\n", stdout)
	_, stderr, code = clitest.Run(t, "drain", "n2", "--dry-run", "--wait")
	require.Equal(t, 2, code, stderr)
}

func TestDrain_waitReportsProgress(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /cluster/nodes/n1/drain", clitest.Answer(200, `{"node_id":"n1","state":"DRAINING","tasks":2,"effects":[]}`))
	asked := 0
	g.On("GET /cluster/nodes/n1", func(w http.ResponseWriter, r *http.Request) {
		switch asked++; asked {
		case 1, 2:
			clitest.Answer(200, `{"node_id":"n1","state":"DRAINING","tasks":2}`)(w, r)
		case 3:
			clitest.Refuse(503, "UNAVAILABLE", "no coordinator leads")(w, r)
		case 4:
			clitest.Answer(200, `{"node_id":"n1","state":"DRAINING","tasks":1}`)(w, r)
		default:
			clitest.Answer(200, `{"node_id":"n1","state":"DRAINED","tasks":0}`)(w, r)
		}
	})
	stdout, stderr, code := clitest.Run(t, "drain", "n1", "--wait")
	require.Zero(t, code, stderr)
	require.Equal(t, "n1 DRAINED\n", stdout)
	require.Equal(t, "n1 DRAINING, 2 tasks left\nn1 DRAINING, 1 tasks left\n", stderr)

	g.On("GET /cluster/nodes/n1", clitest.Answer(200, `{"node_id":"n1","state":"READY"}`))
	_, stderr, code = clitest.Run(t, "drain", "n1", "--wait")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "it was enabled")
	g.On("GET /cluster/nodes/n1", clitest.Refuse(404, "NOT_FOUND", "there is no node n1"))
	_, stderr, code = clitest.Run(t, "drain", "n1", "--wait")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "forgotten with `mind node forget`")
	g.On("POST /cluster/nodes/n1/enable", clitest.Answer(200, `{"node_id":"n1","state":"READY","tasks":1}`))
	stdout, _, code = clitest.Run(t, "enable", "n1")
	require.Zero(t, code)
	require.Equal(t, "n1 READY, 1 tasks still run there\n", stdout)
}

func TestForget_asksForTheName(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /cluster/nodes/n1", clitest.Answer(200, `{"node_id":"n1","state":"LOST","tasks":2,"unreachable_since":"2026-01-31T08:00:00Z"}`))
	g.On("DELETE /cluster/nodes/n1", clitest.Answer(200, `{"node_id":"n1"}`))
	for _, wrong := range []string{"", "y\n", "n2\n"} {
		stdout, stderr, code := clitest.RunAsked(t, wrong, "node", "forget", "n1")
		require.Equal(t, 1, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "n1 is LOST since")
		require.Contains(t, stderr, "Its tasks (2)")
		require.Contains(t, stderr, "nothing was changed")
	}
	require.NotContains(t, g.Asked, "DELETE /cluster/nodes/n1")
	stdout, stderr, code := clitest.RunAsked(t, "n1\n", "node", "forget", "n1")
	require.Zero(t, code, stderr)
	require.Equal(t, "n1 forgotten\n", stdout)
	require.Equal(t, "DELETE /cluster/nodes/n1", g.Asked[len(g.Asked)-1])
	require.NotEmpty(t, g.Keys[len(g.Keys)-1])

	stdout, stderr, code = clitest.Run(t, "node", "forget", "n1", "--yes")
	require.Zero(t, code, stderr)
	require.Equal(t, "n1 forgotten\n", stdout)
	g.On("DELETE /cluster/nodes/n1", clitest.Refuse(409, "FAILED_PRECONDITION", "node n1 is in session: stop its agent first"))
	_, stderr, code = clitest.Run(t, "node", "forget", "n1", "--yes")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "stop its agent first")
}

func TestNodes_showWhatTheyCanTrain(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /cluster/nodes", clitest.Answer(200, `{"nodes":[{"node_id":"n1"},{"node_id":"n2"},{"node_id":"n3"}]}`))
	g.On("GET /cluster/nodes/n1/training", clitest.Answer(200, `{"node_id":"n1","problem":"","python":"3.12","cells":[
		{"training_type":"SFT","framework":"HF_TRAINER","works":true,"why":"","install":""},
		{"training_type":"SFT","framework":"DEEPSPEED","works":false,"why":"it lacks deepspeed","install":"pip install x"},
		{"training_type":"EVALUATION","framework":"EVALUATION","works":true,"why":"","install":""}]}`))
	g.On("GET /cluster/nodes/n2/training", clitest.Answer(200, `{"node_id":"n2","problem":"node n2 has no python3: install it","cells":[]}`))
	g.On("GET /cluster/nodes/n3/training", clitest.Refuse(404, "NOT_FOUND", "no node n3"))
	stdout, stderr, code := clitest.Run(t, "nodes", "--training")
	require.Zero(t, code, stderr)
	lines := strings.Split(clitest.Squeeze(stdout), "\n")
	require.Equal(t, "n1 SFT yes - no - -", lines[1])
	require.Equal(t, "n1 EVALUATION - - - - yes", lines[2])
	require.Contains(t, stdout, "it lacks deepspeed: pip install x\n  (n1 SFT DEEPSPEED)\n")
	require.Contains(t, stdout, "node n2 has no python3: install it\n  (n2)\n")
	require.Contains(t, stdout, "no node n3")
	stdout, stderr, code = clitest.Run(t, "nodes", "--training", "-o", "json")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, `"python": "3.12"`)
}
