package procs

import (
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExiting_isOverWhenTheProcessIsAZombie(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	pid := cmd.Process.Pid
	// The kernel closes the files of the parent a moment before it sets the command line.
	require.Eventually(t, func() bool { return !exiting(pid) }, 30*time.Second, time.Millisecond, "it runs")
	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool { return commandLine(strconv.Itoa(pid)) == "" && !exiting(pid) }, 30*time.Second, time.Millisecond)
	_ = cmd.Wait()
	require.False(t, exiting(pid), "it is buried")
}
