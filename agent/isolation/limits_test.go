package isolation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimits(t *testing.T) {
	groups := t.TempDir()
	for _, file := range []string{"memory.max", "memory.swap.max", "memory.oom.group", "cpu.weight", "pids.max"} {
		require.NoError(t, os.WriteFile(filepath.Join(groups, file), nil, 0o600))
	}
	with := func(controllers ...string) *Isolation {
		i := &Isolation{Level: Cgroup, groups: groups, Controllers: controllers}
		i.files = i.limitFiles()
		return i
	}
	all := with("cpu", "memory", "pids")
	require.Equal(t, []string{"memory.max 2147483648", "memory.swap.max 0", "memory.oom.group 1", "cpu.weight 80", "pids.max 32768"}, all.Limits(2048, 8))
	require.Equal(t, []string{"memory.oom.group 1", "cpu.weight 10", "pids.max 32768"}, all.Limits(0, 0), "it asked for nothing")
	require.Contains(t, all.Limits(0, 5000), "cpu.weight 10000", "the kernel takes no more")
	some := with("pids")
	require.Equal(t, []string{"pids.max 32768"}, some.Limits(2048, 8))
	require.NoError(t, os.Remove(filepath.Join(groups, "memory.swap.max")))
	require.Equal(t, []string{"memory.max 2147483648", "memory.oom.group 1", "cpu.weight 80", "pids.max 32768"}, with("cpu", "memory", "pids").Limits(2048, 8), "a kernel without swap accounting")
	require.Empty(t, (&Isolation{Level: None}).Limits(2048, 8))
}
