package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A job runs with the Python of the environment that it names, on a node whose agent finds another one.
func TestSubmit_runsInAVirtualEnvironment(t *testing.T) {
	theBinary(t)
	venv := filepath.Join(t.TempDir(), "venv")
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	if out, err := exec.Command("python3", "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
		t.Skipf("needs a python3 with the module venv: %s", out)
	}
	d := startDev(t, "--in-process", "--coordinators", "1", "--agents", "1")
	const which = "import sys; print(sys.prefix)"
	log := func(args ...string) string {
		stdout, stderr, code := d.cli(t, append([]string{"submit", "--wait", "--follow"}, args...)...)
		require.Zero(t, code, stderr)
		_, log, _ := strings.Cut(stdout, "\n")
		return strings.TrimSpace(log)
	}
	require.Equal(t, venv, log("--venv", venv, "--", "python", "-c", which))
	require.Equal(t, venv, log("--venv", venv, "--", "sh", "-c", "exec python3 -c '"+which+"'"))
	require.Equal(t, venv, log("--env", "CONDA_PREFIX="+venv, "--", "python3", "-c", which))
	require.NotEqual(t, venv, log("--", "python3", "-c", which))

	none := filepath.Join(filepath.Dir(venv), "none")
	_, stderr, code := d.cli(t, "submit", "--wait", "--venv", none, "--", "python3", "-c", which)
	require.NotZero(t, code)
	require.Contains(t, stderr, "mind: warning: --venv: this machine has no "+none+"/bin/python")
	require.Contains(t, stderr, "LAUNCH_FAILED")
	require.Contains(t, stderr, "has no "+none+"/bin (VIRTUAL_ENV)")
	d.stop(t)
}
