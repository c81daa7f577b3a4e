package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestPolicy_showAndSet(t *testing.T) {
	g := clitest.NewGateway(t)
	policy := `{"order":"FIFO","half_life_seconds":604800,"aging_step_seconds":0,"preemption":{"enabled":false,"protect_seconds":7200,"ratio":16,` +
		`"every_seconds":600,"restart_cost_seconds":300},"backfill":{"reservations":8,"after_seconds":3600},"hold_seconds":120,"revision":7}`
	g.On("GET /policy", clitest.Answer(200, policy))
	g.On("PUT /policy", clitest.Answer(200, policy))
	out, stderr, code := clitest.Run(t, "policy", "show")
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^half_life_seconds\s+604800\s+the age at which`, out)
	require.Regexp(t, `(?m)^preemption\.ratio\s+16\s`, out)

	_, stderr, code = clitest.Run(t, "policy", "set", "order=shortest", "preemption.enabled=true", "preemption.ratio=4", "half_life_seconds=86400")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"order":"SHORTEST","half_life_seconds":86400,"preemption":{"enabled":true,"ratio":4}}`, g.Bodies[len(g.Bodies)-1])
	require.NotEmpty(t, g.Keys[len(g.Keys)-1])

	asked := len(g.Asked)
	for want, args := range map[string][]string{
		`"half_life" is no key of the policy`:       {"half_life=5"},
		`write KEY=VALUE`:                           {"order"},
		`half_life_seconds is a whole number`:       {"half_life_seconds=7d"},
		`preemption.enabled is true or false`:       {"preemption.enabled=perhaps"},
		`mind policy set needs KEY=VALUE`:           {},
		`"x.y" is no key of the policy: ` + "`mind": {"x.y=1"},
	} {
		_, stderr, code = clitest.Run(t, append([]string{"policy", "set"}, args...)...)
		require.NotZero(t, code)
		require.Contains(t, stderr, want)
	}
	for want, args := range map[string][]string{
		"--measure goes with --after-simulating only":                           {"--measure", "jain"},
		"--since goes with --after-simulating only":                             {"--since", "3d"},
		"worse by what? Give --measure: mean-wait, p99-wait":                    {"--after-simulating"},
		"--measure speed: it must be mean-wait":                                 {"--after-simulating", "--measure", "speed"},
		"--tolerance much: it must be a percentage from 0% to 100%, such as 5%": {"--after-simulating", "--measure", "jain", "--tolerance", "much"},
		"--min-jobs 0: it must be 1 or more":                                    {"--after-simulating", "--measure", "jain", "--min-jobs", "0"},
	} {
		_, stderr, code = clitest.Run(t, append([]string{"policy", "set", "order=FIFO"}, args...)...)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, want)
	}
	require.Len(t, g.Asked, asked)
	out, _, _ = clitest.Run(t, "policy", "set", "--help")
	require.Contains(t, out, "backfill.reservations\n      how many blocked jobs")
}

func TestQueues_asATree(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /queues", clitest.Answer(200, `{"queues":[{"name":"default","weight":1,"share_percent":33.33},`+
		`{"name":"research","weight":2,"share_percent":66.67,"max_gpus":8},`+
		`{"name":"vision","parent":"research","weight":3,"share_percent":66.67,"gpus_lately":1.25,"gpus_allocated":2}]}`))
	out, stderr, code := clitest.Run(t, "queues")
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^default\s+1\s+33\.3%\s+0\s+0\s+0\s+0\s+0\.0\s+0\s+-\s+none\nresearch\s+2\s+66\.7%.*8\n  vision\s+3\s+66\.7%\s+0\s+0\s+0\s+2\s+1\.2\s+0\s+-\s+none`, out)

	g.On("PUT /queues/vision", clitest.Answer(200, `{"name":"vision","parent":"research","weight":3,"share_percent":50}`))
	out, stderr, code = clitest.Run(t, "queues", "put", "vision", "--weight", "3", "--parent", "research", "--max-gpus", "4")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"weight":3,"parent":"research","max_gpus":4}`, g.Bodies[len(g.Bodies)-1])
	require.Equal(t, "the jobs of queue vision may hold at most 4 GPUs together; 50.0% of the cluster is its due\n", out)
}
