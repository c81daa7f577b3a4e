package main

import (
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/devcluster"
)

// If one of three coordinators is dead, an attack on another is refused, and nothing changes.
func TestChaos_leavesTheQuorumAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a cluster")
	}
	d := startDev(t, "--agents", "1")
	dead := d.info.Coordinators[slices.IndexFunc(d.info.Coordinators, func(c devcluster.CoordinatorInfo) bool { return c.ID == "c2" })]
	require.NoError(t, syscall.Kill(dead.Pid, syscall.SIGKILL))
	for _, attack := range []string{"kill-leader", "pause"} {
		stdout, stderr, code := d.cli(t, "chaos", attack, "--dev-json", d.dir, "--rounds", "1")
		require.Equal(t, 1, code)
		require.Empty(t, stdout)
		require.Equal(t, "mind: only 2 of 3 voting coordinators can be reached, and 2 are needed: the cluster would stop if one more were taken away; bring c2 back first\n", stderr)
	}
	stdout, stderr, code := d.cli(t, "submit", "--wait", "--", "true")
	require.Zero(t, code, stderr)
	require.NotEmpty(t, stdout)
	for _, c := range d.info.Coordinators {
		if c.ID != "c2" {
			require.NoError(t, syscall.Kill(c.Pid, 0), c.ID)
		}
	}
	stdout, stderr, code = d.cli(t, "raft", "peers")
	require.Zero(t, code, stderr)
	require.NotRegexp(t, `(?m)^c2 .* leader`, stdout)
	d.stop(t)
}
