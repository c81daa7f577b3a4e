package runner

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/shim"
)

// limited returns the isolation of a node whose tasks have limits, if the machine has the controllers. The tests of the
// virtual machine run these tests where it has all.
func limited(t *testing.T, controller string) *isolation.Isolation {
	t.Helper()
	i, err := isolation.Open(isolation.Config{Parent: delegated(t), Node: "n1", DataDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(i.Close)
	if !slices.Contains(i.Controllers, controller) {
		t.Skipf("this machine has no controller %s of cgroup v2", controller)
	}
	return i
}

// hungry doubles a string until something stops it.
const hungry = "x=0123456789abcdef; while :; do x=$x$x; done"

func TestLimits_memory(t *testing.T) {
	i := limited(t, "memory")
	spec := newSpec("sh", "-c", "sleep 1000 & ("+hungry+"); echo alive")
	spec.Cgroup, spec.Limits = i.Task("t1"), i.Limits(48, 1)
	h, dir := start(t, spec)
	exit := exited(t, h)
	require.Equal(t, shim.FailureOOM, exit.Failure)
	require.Equal(t, 137, exit.Code, "the whole task ends, not only the process that was hungry")
	require.Regexp(t, `^killed by the kernel: out of memory on node n1: it may use 48 MiB, and used up to 4[78] MiB; ask for more with --memory \(memory_mb\)$`, exit.Message)
	require.Empty(t, logLines(t, dir))
	require.NoDirExists(t, spec.Cgroup)
}

func TestLimits_aTaskWithinItsMemoryRuns(t *testing.T) {
	i := limited(t, "memory")
	spec := newSpec("sh", "-c", "x=$(head -c 4000000 /dev/zero | tr '\\0' x); echo ${#x}")
	spec.Cgroup, spec.Limits = i.Task("t1"), i.Limits(64, 1)
	h, dir := start(t, spec)
	require.Zero(t, exited(t, h).Code)
	require.Equal(t, "4000000", logLines(t, dir)[0].Text)
}

// A fork bomb takes nothing from others, and ends with its task.
func TestLimits_processes(t *testing.T) {
	i := limited(t, "pids")
	// A shell that cannot fork ends, so the first one does not fork any more when the bomb begins.
	spec := newSpec("sh", "-c", `bomb() { bomb & bomb & sleep 1000; }; sleep 1000 & keep=$!; (bomb) & wait $keep; exit 9`)
	spec.Cgroup, spec.Limits = i.Task("t1"), []string{"pids.max 50"}
	h, _ := start(t, spec)
	running(t, h)
	waitFor(t, "the limit", func() bool {
		text, err := os.ReadFile(filepath.Join(spec.Cgroup, "pids.events"))
		return err == nil && !strings.Contains(string(text), "max 0")
	})
	require.NoError(t, h.Stop(shim.StopRequest{}))
	exit := exited(t, h)
	require.Contains(t, exit.Message, "it had as many processes and threads as a job may have (50)")
	require.Empty(t, Processes(spec, spec.Cgroup))
	require.NoDirExists(t, spec.Cgroup)
}

// A task that asked for more CPUs gets more when all are busy.
func TestLimits_cpus(t *testing.T) {
	i := limited(t, "cpu")
	for name, cpus := range map[string]int{"t1": 1, "t2": 32} {
		spec := newSpec("sh", "-c", "cat /sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/cpu.weight")
		spec.Cgroup, spec.Limits = i.Task(name), i.Limits(0, cpus)
		h, dir := start(t, spec)
		require.Zero(t, exited(t, h).Code)
		require.Equal(t, map[string]string{"t1": "10", "t2": "320"}[name], logLines(t, dir)[0].Text)
	}
}

// Without the controller that a limit needs, a task does not run without the limit.
func TestLimits_thatCannotBeSet(t *testing.T) {
	spec := newSpec("true")
	spec.Cgroup, spec.Limits = delegated(t)+"/task", []string{"nothing.max 1"}
	h, _ := start(t, spec)
	exit := exited(t, h)
	require.Equal(t, shim.FailureUnfit, exit.Failure)
	require.NoDirExists(t, spec.Cgroup)
}
