package proc

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	const rest = " 0 -1 4 5 6 7 8 9 10 11 12 13 14 15 16 1234 19"
	for text, want := range map[string]Process{
		"12 (cat) S 3 12 9" + rest:         {Pid: 12, Parent: 3, Session: 9, Started: 1234},
		"12 (a ) Z (b) Z 3 12 9" + rest:    {Pid: 12, Parent: 3, Session: 9, Started: 1234, Zombie: true},
		"7 (tmux: server) R 1 7 7" + rest:  {Pid: 7, Parent: 1, Session: 7, Started: 1234},
		"7 (tmux: server) X 1 7 7 " + rest: {Pid: 7, Parent: 1, Session: 7, Started: 1234, Zombie: true},
	} {
		got, ok := parseStat(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"12 (cat", "12 (cat) S 3 12 9"} {
		_, ok := parseStat(text)
		require.False(t, ok, text)
	}
}

func TestProcess_runsUntilItEnds(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	all := All()
	at := slices.IndexFunc(all, func(p Process) bool { return p.Pid == cmd.Process.Pid })
	require.NotEqual(t, -1, at)
	found := all[at]
	require.Equal(t, os.Getpid(), found.Parent)
	require.True(t, found.Runs())
	other := found
	other.Started--
	require.False(t, other.Runs(), "it had the number before")
	require.False(t, found.Ends(time.Millisecond))
	require.NoError(t, other.Kill())
	require.True(t, other.Ends(time.Minute))
	require.True(t, found.Runs(), "it is not the one that is to be killed")
	require.NoError(t, found.Kill())
	require.True(t, found.Ends(time.Minute))
	require.NoError(t, found.Kill(), "it has ended, and is a zombie")
	_ = cmd.Wait()
	require.False(t, found.Runs())
	require.True(t, found.Ends(0))
	require.NoError(t, found.Kill())
}

func TestRunsFor(t *testing.T) {
	for name, c := range map[string]struct {
		argv, environ []string
		want          bool
	}{
		"shim":                 {argv: []string{"/proc/self/exe", "shim", "--dir", "/d/agents/n1/x"}, want: true},
		"shim, joined":         {argv: []string{"mind", "shim", "--dir=/d/agents/n1/x"}, want: true},
		"shim of a namesake":   {argv: []string{"mind", "shim", "--dir", "/data/agents/n1/x"}},
		"task":                 {argv: []string{"python"}, environ: []string{"A=b", "MIND_METRICS_FILE=/d/agents/n1/x/m"}, want: true},
		"shell that looks in":  {argv: []string{"less", "/d/logs/n1.log"}, environ: []string{"MIND_DEV=/d", "PWD=/d/logs"}},
		"supervisor of others": {argv: []string{"mind", "dev", "--data-dir", "/d"}},
	} {
		require.Equal(t, c.want, RunsFor("/d", c.argv, c.environ), name)
	}
}
