package explain_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestExplain_saysTheStatus(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1/explain", clitest.Answer(200, `{"job_id":"job_1","state":"RUNNING","status":"TRAINING","reason":"all is well","queue_position":null,"details":["rank 0: x"]}`))
	stdout, stderr, code := clitest.Run(t, "explain", "job_1")
	require.Zero(t, code, stderr)
	require.Equal(t, "job_1 is TRAINING\nall is well\n- rank 0: x\n", stdout)
}

func TestExplain_saysWhatWouldHelp(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1/explain", clitest.Answer(200, `{"job_id":"job_1","status":"QUEUED","reason":"needs 4","queue_position":2,"details":["free now: 2 GPUs"],
		"obstacles":[{"kind":"NODES","message":"needs 4","nodes":[{"check":"GPUS_IN_USE","nodes":2,"examples":["n1","n2"]},{"check":"DRAINED","nodes":1,"examples":["n3"]}]},
			{"kind":"ORDER","message":"ahead of it: 1 job"}],
		"remedies":[{"message":"with 2 GPUs","flags":"--gpus 2","answer":{"what_if":["gpus=2"],"starts_now":true}},
			{"message":"with job job_0 canceled","command":"mind cancel job_0","answer":{"what_if":["cancel=job_0"]}},
			{"message":"with no node selector","answer":{"what_if":["selector="]}},
			{"message":"with a quota of 4 GPUs","operator":true,"answer":{"what_if":["quota.max_gpus=4"]}}]}`))
	stdout, stderr, code := clitest.Run(t, "explain", "job_1")
	require.Zero(t, code, stderr)
	require.Equal(t, `job_1 is QUEUED, place 2 in its queue
needs 4
  NODES  WHY NOT                   SUCH AS
  2      GPUs in use               n1, n2
  1      drained or being drained  n3
- ahead of it: 1 job
- free now: 2 GPUs

It would start now:
  CHANGE                   HOW
  with 2 GPUs              mind submit --gpus 2
  with job job_0 canceled  mind cancel job_0
  with no node selector    --what-if selector=
  with a quota of 4 GPUs   an operator can set it
`, stdout)
}

func TestExplain_whatIf(t *testing.T) {
	for answer, want := range map[string]string{
		`{"what_if":["gpus=2","queue=q"],"starts_now":true,"node_ids":["n1"]}`:                                         "With gpus=2 queue=q, job_1 would start now on n1\n",
		`{"what_if":["priority=9"],"starts_now":true,"node_ids":["n1","n2"],"preempts":2}`:                             "With priority=9, job_1 would get its places on n1, n2; jobs to be preempted before: 2\n",
		`{"what_if":["gpus=9"],"reason":"needs 9","starts_after":"job_0","estimated_start_at":"2026-03-01T14:00:00Z"}`: "With gpus=9, job_1 would still wait: needs 9\nIt would start at 2026-03-01T14:00:00Z at the earliest, when job_0 ends\n",
		`{"what_if":["gpus=9"],"reason":"needs 9","starts_after":"job_0"}`:                                             "With gpus=9, job_1 would still wait: needs 9\nIt would start when job_0 ends, at an unknown time\n",
	} {
		g := clitest.NewGateway(t)
		asked := ""
		g.On("GET /jobs/job_1/explain", func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.RawQuery
			clitest.Answer(200, `{"status":"QUEUED","what_if":`+answer+`}`)(w, r)
		})
		stdout, stderr, code := clitest.Run(t, "explain", "job_1", "--what-if", "gpus=2", "--what-if", "queue=q")
		require.Zero(t, code, stderr)
		require.Equal(t, want, stdout)
		require.Equal(t, "what_if=gpus%3D2&what_if=queue%3Dq", asked)
	}
}
