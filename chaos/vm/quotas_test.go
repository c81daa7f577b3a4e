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

// The quotas of jobs, tested where the kernel has them: the tests of the agent run in the machine, on disks with project quotas.
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
	files := Files{Init: filepath.Join(dir, "init"), Programs: programs, Modules: []string{"quota_v2", "xfs"}}
	require.NoError(t, cfg.Kit.WriteInitramfs(cfg.Initramfs, files))
	ext4, err := cfg.Kit.NewDisk(ctx, filepath.Join(dir, "ext4"), 256, "-O", "quota,project", "-E", "quotatype=prjquota")
	require.NoError(t, err)
	kinds := []string{"ext4"}
	cfg.Disks, cfg.MemoryMB = []*Disk{ext4}, 768
	if mkfs, err := find("mkfs.xfs"); err == nil {
		const megabytes = 512 // xfs needs 300
		xfs := &Disk{Path: filepath.Join(dir, "xfs"), kit: cfg.Kit}
		require.NoError(t, os.WriteFile(xfs.Path, nil, 0o600))
		require.NoError(t, os.Truncate(xfs.Path, megabytes<<20))
		out, err := exec.CommandContext(ctx, mkfs, "-q", xfs.Path).CombinedOutput()
		require.NoError(t, err, string(out))
		kinds, cfg.Disks = append(kinds, "xfs"), append(cfg.Disks, xfs)
	} else {
		t.Log("only ext4 is tested: ", err)
	}
	m, err := cfg.Boot(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Cut() })
	for i, kind := range kinds {
		device, at := "/dev/vd"+string(rune('a'+i)), "/"+kind
		// Without quotas there is no agent.
		_, err = m.Shell(ctx, "mkdir "+at+" && mount -t "+kind+" "+device+" "+at)
		require.NoError(t, err)
		run := func(program, tests, given string) guest.Result {
			r, err := m.Run(ctx, guest.Command{
				Argv: []string{program, "-test.v", "-test.run", tests},
				Env:  []string{"PATH=/bin", "TMPDIR=/tmp", "HOME=/", given},
			})
			require.NoError(t, err)
			t.Logf("%s: %s%s", kind, r.Stdout, r.Stderr)
			return r
		}
		r := run("disk.test", "Quotas_boundAJob", quotatest.DirEnv+"="+at)
		require.NotZero(t, r.Code)
		require.Contains(t, string(r.Stdout), "does not hold project quotas", kind)
		_, err = m.Shell(ctx, "umount "+at+" && mount -t "+kind+" -o prjquota "+device+" "+at)
		require.NoError(t, err)
		for program, tests := range map[string][]string{
			"disk.test":  {"TestQuotas_boundAJob", "TestQuotas_projects", "TestQuotas_followNoLinks"},
			"agent.test": {"TestDiskOfAJob"},
		} {
			r := run(program, "Quotas|DiskOfAJob", quotatest.DirEnv+"="+at)
			require.Zero(t, r.Code, kind)
			for _, name := range tests {
				require.Contains(t, string(r.Stdout), "--- PASS: "+name+" ", kind)
			}
		}
	}
}
