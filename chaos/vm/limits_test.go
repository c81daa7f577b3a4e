package vm

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/vm/guest"
)

// The limits of tasks, tested where the kernel has all controllers: the tests of the agent run in the machine.
func TestMachine_limitsOfTasks(t *testing.T) {
	cfg, dir := machine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tests := filepath.Join(dir, "runner.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", tests, module+"agent/runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	text, err := build.CombinedOutput()
	require.NoError(t, err, string(text))
	require.NoError(t, cfg.Kit.WriteInitramfs(cfg.Initramfs, Files{Init: filepath.Join(dir, "init"), Programs: map[string]string{"runner.test": tests}}))
	cfg.MemoryMB = 512
	m, err := cfg.Boot(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Cut() })
	r, err := m.Run(ctx, guest.Command{Argv: []string{"runner.test", "-test.v", "-test.run", "TestLimits|ControlGroup"}, Env: []string{"PATH=/bin", "TMPDIR=/tmp", "HOME=/"}})
	require.NoError(t, err)
	t.Logf("%s%s", r.Stdout, r.Stderr)
	require.Zero(t, r.Code)
	for _, name := range []string{"memory", "processes", "cpus"} {
		require.Contains(t, string(r.Stdout), "--- PASS: TestLimits_"+name)
	}
}
