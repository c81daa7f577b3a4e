package vm

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation/disk/quotatest"
	"github.com/mindcoordinator/mind/chaos/vm/guest"
)

// The quotas of jobs, tested where the kernel has them: the tests of the agent run in the machine, on a disk with project quotas.
func TestMachine_quotasOfJobs(t *testing.T) {
	cfg, dir := machine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 7*time.Minute)
	defer cancel()
	programs := map[string]string{}
	for name, pkg := range map[string]string{"disk.test": "agent/isolation/disk", "agent.test": "agent"} {
		programs[name] = filepath.Join(dir, name)
		build := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags", "-s -w", "-o", programs[name], module+pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		text, err := build.CombinedOutput()
		require.NoError(t, err, string(text))
	}
	require.NoError(t, cfg.Kit.WriteInitramfs(cfg.Initramfs, Files{Init: filepath.Join(dir, "init"), Programs: programs, Modules: []string{"quota_v2"}}))
	disk, err := cfg.Kit.NewDisk(ctx, filepath.Join(dir, "disk"), 256, "-O", "quota,project", "-E", "quotatype=prjquota")
	require.NoError(t, err)
	cfg.Disks, cfg.MemoryMB = []*Disk{disk}, 768
	m, err := cfg.Boot(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Cut() })
	require.NoError(t, m.Mount(ctx, "/dev/vda", "/data", "prjquota"))
	for program, tests := range map[string][]string{
		"disk.test":  {"TestQuotas_boundAJob", "TestQuotas_projects", "TestQuotas_followNoLinks"},
		"agent.test": {"TestDiskOfAJob"},
	} {
		r, err := m.Run(ctx, guest.Command{
			Argv: []string{program, "-test.v", "-test.run", "Quotas|DiskOfAJob"},
			Env:  []string{"PATH=/bin", "TMPDIR=/tmp", "HOME=/", quotatest.DirEnv + "=/data"},
		})
		require.NoError(t, err)
		t.Logf("%s%s", r.Stdout, r.Stderr)
		require.Zero(t, r.Code)
		for _, name := range tests {
			require.Contains(t, string(r.Stdout), "--- PASS: "+name+" ")
		}
	}
}
