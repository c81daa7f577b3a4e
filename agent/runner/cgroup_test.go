package runner

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation/leveltest"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// delegated finds a cgroup in which the test may make groups, if the machine allows that.
func delegated(t testing.TB) string {
	t.Helper()
	dir, err := leveltest.Group(testrun.Name() + "-task")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { confine.RemoveGroup(dir) })
	return dir
}

func TestATaskHasItsControlGroup(t *testing.T) {
	numbersOfTheMachine(t)
	group := filepath.Join(delegated(t), "task")
	spec := newSpec("sh", "-c", "trap '' TERM; setsid sleep 1000 & cat "+group+"/cgroup.procs; while :; do sleep 0.01; done")
	spec.Cgroup = group
	h, dir := start(t, spec)
	pid := running(t, h)
	waitFor(t, "its processes", func() bool { return len(logLines(t, dir)) >= 2 })
	require.Equal(t, strconv.Itoa(pid), logLines(t, dir)[0].Text)
	require.NoError(t, h.Stop(shim.StopRequest{}))
	require.Equal(t, 137, exited(t, h).Code)
	require.NoDirExists(t, group)
}

// Without its walls a task does not run.
func TestATaskWhoseControlGroupCannotBeIsNotStarted(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	spec := newSpec("touch", ran)
	spec.Cgroup = "/no/such/group"
	h, _ := start(t, spec)
	exit := exited(t, h)
	require.Equal(t, shim.FailureUnfit, exit.Failure)
	require.Contains(t, exit.Message, "cannot make the control group /no/such/group")
	require.NoFileExists(t, ran)
}

// A task may make groups of its own, and put processes there that are no descendants of it: they end with it.
func TestTheEndOfATaskLeavesNothingInItsControlGroup(t *testing.T) {
	numbersOfTheMachine(t)
	group := filepath.Join(delegated(t), "task")
	foreign := exec.Command("sleep", "1000")
	require.NoError(t, foreign.Start())
	ended := make(chan error, 1)
	go func() { ended <- foreign.Wait() }()
	spec := newSpec("sh", "-c", "mkdir -p "+group+"/own/deeper; echo "+strconv.Itoa(foreign.Process.Pid)+" > "+group+"/own/deeper/cgroup.procs; "+
		"(setsid env -i sleep 1000 &) ; exit 3")
	spec.Cgroup = group
	h, _ := start(t, spec)
	require.Equal(t, 3, exited(t, h).Code)
	require.ErrorContains(t, <-ended, "signal")
	require.NoDirExists(t, group)
}

// The processes of a task whose shim was killed are found in its group, also without its environment, its session and its
// parents.
func TestNothingOutlivesAKilledShimInAControlGroup(t *testing.T) {
	group := filepath.Join(delegated(t), "task")
	spec := newSpec("sh", "-c", "mkdir "+group+"/own; for i in 1 2 3; do setsid env -i sh -c 'echo $$ > "+group+"/own/cgroup.procs; trap \"\" TERM HUP; while :; do sleep 0.05; done' & done; "+
		"setsid env -i sleep 1000 & while [ $(wc -l < "+group+"/own/cgroup.procs) -lt 3 ]; do sleep 0.01; done; echo ready; sleep 1000")
	spec.Cgroup = group
	h, dir := start(t, spec)
	pid := running(t, h)
	waitFor(t, "its processes", func() bool { return len(logLines(t, dir)) == 1 })
	require.GreaterOrEqual(t, len(Processes(spec, spec.Cgroup)), 6)
	require.NoError(t, syscall.Kill(shimOf(t, pid), syscall.SIGKILL))
	require.Equal(t, shim.FailureInternal, exited(t, h).Failure)
	require.NoDirExists(t, group)
	require.Empty(t, Processes(spec, spec.Cgroup))
}
