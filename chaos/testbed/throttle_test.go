package testbed

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/devcluster/testrun"
)

func TestThrottle_holdsProcessesAndLetsThemGo(t *testing.T) {
	b, err := newThrottle()
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	groups := func() string {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/cgroup")
		require.NoError(t, err)
		return string(text)
	}
	before := groups()
	require.NoError(t, b.Slow([]int{cmd.Process.Pid}, 0.25))
	require.Contains(t, groups(), testrun.Name())
	limit := "cpu.cfs_quota_us"
	if b.v2 {
		limit = "cpu.max"
	}
	text, err := os.ReadFile(b.dir + "/" + limit)
	require.NoError(t, err)
	require.Contains(t, string(text), "25000", "a quarter of the period")
	require.NoError(t, b.Release())
	text, err = os.ReadFile(b.dir + "/" + limit)
	require.NoError(t, err)
	require.NotContains(t, string(text), "25000")
	require.NoError(t, b.remove())
	require.NoDirExists(t, b.dir)
	require.NotContains(t, groups(), testrun.Name(), "it was in %s", before)
}
