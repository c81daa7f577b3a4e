package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDev_simulatesItsOwnHistory runs jobs of two tenants on a cluster of real processes, and sets policies only if a
// simulation shows that they would not have been worse for these jobs.
func TestDev_simulatesItsOwnHistory(t *testing.T) {
	d := startDev(t, "--coordinators", "1", "--agents", "1")
	run := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		stdout, stderr, got := d.cli(t, args...)
		require.Equal(t, code, got, stderr)
		return stdout, stderr
	}
	_, stderr := run(1, "simulate", "--from-cluster")
	require.Contains(t, stderr, "there is nothing to simulate: the cluster knows of no job that has run or waits")

	out, _ := run(0, "token", "create", "--tenant", "beta", "--user", "bob", "--name", "b", "--permission", "scaimind:view", "--permission", "scaimind:manage", "-o", "json")
	var beta struct{ Token string }
	require.NoError(t, json.Unmarshal([]byte(out), &beta))
	run(0, "submit", "--array", "0-5%2", "--gpus", "1", "--wait", "--", "true")
	run(0, "submit", "--token", beta.Token, "--gpus", "2", "--wait", "--", "true")
	run(0, "submit", "--token", beta.Token, "--gpus", "8", "--time-limit", "1h", "--", "sleep", "600")
	for _, limit := range []string{"10h", "1m", "1m"} { // these jobs wait
		run(0, "submit", "--gpus", "8", "--time-limit", limit, "--", "sleep", "600")
	}

	saved := filepath.Join(t.TempDir(), "history.csv")
	out, stderr = run(0, "simulate", "--from-cluster", "--since", "1h", "--policy", "fifo", "--save", saved, "-o", "json")
	var got struct {
		History struct{ Jobs, Finished, Tenants, Nodes int }
		Runs    []struct {
			Policy  string
			InForce bool `json:"in_force"`
			Jobs    int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, []int{11, 7, 2, 1}, []int{got.History.Jobs, got.History.Finished, got.History.Tenants, got.History.Nodes})
	require.Len(t, got.Runs, 2)
	require.True(t, got.Runs[0].InForce)
	require.Equal(t, []string{"in force", "fifo"}, []string{got.Runs[0].Policy, got.Runs[1].Policy})
	require.Contains(t, stderr, "11 jobs, in minutes and without tenants and queues")
	text, err := os.ReadFile(saved)
	require.NoError(t, err)
	require.Equal(t, 12, strings.Count(string(text), "\n"))
	run(0, "simulate", "--trace", saved, "--nodes", "1x8", "--policy", "fifo")
	run(1, "simulate", "--from-cluster", "--save", saved)

	out, _ = run(0, "simulate", "--from-cluster", "--policy", "easy")
	require.Contains(t, out, "7 finished, 1 running, 3 waiting")
	require.Contains(t, out, "how long the 4 jobs that are not over will take is not known")
	require.Regexp(t, `MEASURE +in force +easy`, out)

	trial := func(order string, more ...string) []string {
		return append([]string{"policy", "set", "order=" + order, "--after-simulating", "--measure", "mean-wait"}, more...)
	}
	_, stderr = run(1, trial("SHORTEST")...)
	require.Contains(t, stderr, "not set: only 7 finished jobs are known")
	out, _ = run(0, trial("SHORTEST", "--min-jobs", "5")...)
	require.Regexp(t, `MEASURE +in force +new`, out)
	require.Regexp(t, `(?m)^order +SHORTEST`, out)

	out, stderr = run(1, trial("FIFO", "--min-jobs", "5")...) // the short jobs would wait for the long one
	require.Regexp(t, `not set: mean-wait would go from .* to .* % worse, and --tolerance is 5%\. Change less, `, stderr)
	require.Regexp(t, `MEASURE +in force +new`, out)
	out, _ = run(0, "policy", "show")
	require.Regexp(t, `(?m)^order +SHORTEST`, out, "nothing was changed")
	out, stderr = run(0, trial("FIFO", "--min-jobs", "5", "--tolerance", "100%", "-o", "json")...)
	require.True(t, json.Valid([]byte(out)))
	require.Regexp(t, `MEASURE +in force +new`, stderr)
	_, stderr = run(1, "policy", "set", "half_life_seconds=1", "--after-simulating", "--measure", "jain")
	require.Contains(t, stderr, "half_life_seconds is 1")
	out, _ = run(0, "audit", "--action", "snapshot", "--tenant", "*")
	require.Contains(t, out, "snapshot.save", "reading the whole state is in the audit log")
}
