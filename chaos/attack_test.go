package chaos

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/scenario"
	"github.com/mindcoordinator/mind/chaos/scenario/result"
	"github.com/mindcoordinator/mind/chaos/scenario/users"
	"github.com/mindcoordinator/mind/chaos/testbed"
)

// attack runs one scenario on its own cluster. All time limits are far longer than needed: a test never fails because
// of how long something took.
func attack(t *testing.T, e scenario.Entry) result.Result {
	t.Helper()
	if testing.Short() {
		t.Skip("attacks real processes")
	}
	if why := testbed.Lacks(e); why != "" {
		t.Skip(why)
	}
	dir, err := os.MkdirTemp("", "mind-attack-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, dir)
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	v, err := testbed.Run(within(t, 6*time.Minute), mind, dir, e, t.Logf)
	t.Log(v)
	require.NoError(t, err)
	require.NoError(t, v.Broken())
	require.NotZero(t, v.Lines, "nothing was compared")
	return v
}

func showLogs(t *testing.T, dir string) {
	logs, _ := filepath.Glob(filepath.Join(dir, "data", "logs", "*.log"))
	for _, l := range append(logs, filepath.Join(dir, "mind-dev.log")) {
		if text, err := os.ReadFile(l); err == nil {
			t.Logf("%s ends with:\n%s", filepath.Base(l), text[max(0, len(text)-3000):])
		}
	}
}

func load(s users.Steady) scenario.Load {
	return scenario.Load{Steady: s, Clients: 2, Pause: 100 * time.Millisecond, Followers: 2}
}

func TestKillLeader_loseNothing(t *testing.T) {
	v := attack(t, scenario.Entry{
		Attack: scenario.KillLeader(3, load(users.Steady{Jobs: 6, Replaceable: 2})), Restart: true, Agents: 2, GPUs: "8xH100",
	})
	require.Zero(t, v.ClientErrors, "a client sees a slow answer while the leader changes, not an error")
}

func TestExecutions_eachStepHappensOnce(t *testing.T) {
	flows := users.Flows{Executions: 100, Cycles: 4, Rest: 4 * time.Second}
	v := attack(t, scenario.Entry{
		Attack: scenario.Executions(5, flows, load(users.Steady{Jobs: 2})), Restart: true, Agents: 2, GPUs: "16xH100",
	})
	require.Equal(t, flows.Executions, v.Executions)
}

func TestPause_whoWakesUpHarmsNobody(t *testing.T) {
	t.Parallel() // it waits more than it works
	attack(t, scenario.Entry{
		Attack: scenario.Pause(3, 3*time.Second, load(users.Steady{Jobs: 4, Replaceable: 2})), Agents: 2, GPUs: "8xH100",
	})
}

func TestStreams_everyWatcherIsGivenEveryLineOnce(t *testing.T) {
	const watchers, lines = 20, 20_000
	v := attack(t, scenario.Entry{
		Attack:  scenario.Streams(4, scenario.Printing{Lines: lines, Watchers: watchers, For: 5 * time.Second}, load(users.Steady{Jobs: 1})),
		Restart: true, Agents: 1, GPUs: "8xH100",
	})
	require.GreaterOrEqual(t, v.Lines, watchers*lines)
}

func TestDiskFull_theCoordinatorStopsAndSaysSo(t *testing.T) {
	attack(t, scenario.Entry{Attack: scenario.DiskFull(1, load(users.Steady{Jobs: 2})), Disk: true, Agents: 1, GPUs: "8xH100"})
}

func TestDamage_theCoordinatorRefusesAndJoinsAgain(t *testing.T) {
	attack(t, scenario.Entry{Attack: scenario.Damage(1, load(users.Steady{Jobs: 2})), Agents: 1, GPUs: "8xH100"})
}

func TestLostQuorum_whatTheSurvivorHoldsGoesOn(t *testing.T) {
	attack(t, scenario.Entry{Attack: scenario.LostQuorum(1, load(users.Steady{Jobs: 4, Replaceable: 3, Gangs: 1})), Agents: 2, GPUs: "8xH100"})
}

func TestPartition_oneWayAndBothWays(t *testing.T) {
	attack(t, scenario.Entry{
		Attack: scenario.Partition(3, 3*time.Second, load(users.Steady{Jobs: 4, Replaceable: 2})), Namespaces: true, Agents: 2, GPUs: "8xH100",
	})
}

// away is a load whose replaceable jobs have the shortest possible LostAfter.
func away(replaceable int) scenario.Load {
	l := load(users.Steady{Jobs: 4, Short: 2, Replaceable: replaceable, Gangs: 1, LostAfter: 10 * time.Second})
	l.Pause = 500 * time.Millisecond
	return l
}

func TestAgentDown_oneLifeAtATimeAndExactExitCodes(t *testing.T) {
	t.Parallel() // it waits more than it works
	v := attack(t, scenario.Entry{Attack: scenario.AgentAway(scenario.Away{}, away(4)), Agents: 4, GPUs: "8xH100"})
	require.NotZero(t, v.Replaced)
}

func TestAgentStopped_oneLifeAtATimeAndExactExitCodes(t *testing.T) {
	t.Parallel() // it waits more than it works
	v := attack(t, scenario.Entry{Attack: scenario.AgentAway(scenario.Away{Stop: true}, away(4)), Agents: 4, GPUs: "8xH100"})
	require.NotZero(t, v.Replaced)
}

func TestNodeCutOff_replacedElsewhereAndNeverTwice(t *testing.T) {
	t.Parallel() // it waits more than it works
	v := attack(t, scenario.Entry{Attack: scenario.NodeCutOff(away(4)), Namespaces: true, Agents: 4, GPUs: "8xH100"})
	require.NotZero(t, v.Replaced)
}
