package runner

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// delegated finds a cgroup in which the test may make groups, if the machine allows that.
func delegated(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		dir := filepath.Join(root, testrun.Name()+"-task")
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { require.NoError(t, os.Remove(dir)) })
		if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err == nil {
			return dir
		}
	}
	t.Skip("no writable cgroup v2 here")
	return ""
}

func TestATaskHasItsControlGroup(t *testing.T) {
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

func TestATaskRunsWithoutAControlGroupThatCannotBe(t *testing.T) {
	spec := newSpec("sh", "-c", "exit 5")
	spec.Cgroup = "/no/such/group"
	h, _ := start(t, spec)
	require.Equal(t, 5, exited(t, h).Code)
}
