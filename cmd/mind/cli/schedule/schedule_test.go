package schedule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestSchedule_putShowRunDelete(t *testing.T) {
	g := clitest.NewGateway(t)
	nightly := `{"name":"nightly","user_id":"ann","cron":"30 2 * * 1-5","timezone":"Europe/Berlin","overlap":"skip","start_within_seconds":600,
		"next_run_at":"2026-07-01T00:30:00Z","upcoming":["2026-07-02T00:30:00Z"],"last_job_id":"job_7","started":3,"skipped":1,
		"last_run":{"outcome":"SKIPPED","reason":"job job_7, of an earlier run, is RUNNING","at":"2026-06-30T00:30:00Z"}}`
	paused := `{"name":"weekly","user_id":"ann","cron":"@weekly","timezone":"UTC","overlap":"allow","paused":true}`
	g.On("GET /schedules", clitest.Answer(200, `{"schedules":[`+nightly+`,`+paused+`]}`))
	g.On("GET /schedules/nightly", clitest.Answer(200, nightly))
	g.On("PUT /schedules/nightly", clitest.Answer(200, nightly))
	g.On("POST /schedules/weekly/pause", clitest.Answer(200, paused))
	g.On("POST /schedules/nightly/run", clitest.Answer(201, `{"job_id":"job_8"}`))
	g.On("DELETE /schedules/nightly", clitest.Answer(200, `{"name":"nightly"}`))

	out, stderr, code := clitest.Run(t, "schedule", "put", "nightly", "--cron", "30 2 * * 1-5", "--tz", "Europe/Berlin", "--start-within", "10m", "--gpus", "8", "--cwd", "/", "--", "python", "evaluate.py", "--all")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"cron":"30 2 * * 1-5","timezone":"Europe/Berlin","overlap":"skip","start_within_seconds":600,"paused":false,
		"job":{"name":"python","command_config":{"argv":["python","evaluate.py","--all"],"cwd":"/"},"resource_config":{"gpu_count":8}}}`, g.Bodies[len(g.Bodies)-1])
	for _, says := range []string{"put by ann", "Wed 2026-07-01 02:30 CEST\n           Thu 2026-07-02 02:30 CEST", "at most    10m0s late", "SKIPPED, Tue", "of an earlier run", "3 started, 1 skipped"} {
		require.Contains(t, out, says)
	}
	out, _, code = clitest.Run(t, "schedule")
	require.Zero(t, code)
	require.Regexp(t, `nightly\s+30 2 \* \* 1-5\s+Europe/Berlin\s+2026-07-01 02:30 CEST\s+SKIPPED\s+job_7\s+3\s+1 skipped`, out)
	require.Regexp(t, `weekly\s+@weekly\s+UTC\s+paused`, out)
	out, _, _ = clitest.Run(t, "schedule", "pause", "weekly")
	require.Contains(t, out, "mind schedule resume weekly")
	out, _, _ = clitest.Run(t, "schedule", "run", "nightly")
	require.Equal(t, "job_8\n", out)
	out, _, _ = clitest.Run(t, "schedule", "delete", "nightly")
	require.Equal(t, "nightly is gone\n", out)

	for says, args := range map[string][]string{
		"--cron":                    {"schedule", "put", "nightly", "--", "true"},
		"there is nothing to run":   {"schedule", "put", "nightly", "--cron", "@daily"},
		"mind schedule pause needs": {"schedule", "pause"},
	} {
		_, stderr, code := clitest.Run(t, args...)
		require.Equal(t, 2, code, says)
		require.Contains(t, stderr, says)
	}
}
