package vm

import (
	"context"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/vm/guest"
)

// machine returns the configuration for tests with a real machine, and skips the test if it lacks a part.
func machine(t *testing.T) (Config, string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a virtual machine")
	}
	kit, err := CachedKit(t.Context())
	if IsLacking(err) {
		t.Skip(err)
	}
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, Build(t.Context(), InitPackage, filepath.Join(dir, "init")))
	initramfs := filepath.Join(dir, "initramfs")
	require.NoError(t, kit.WriteInitramfs(initramfs, Files{Init: filepath.Join(dir, "init")}))
	return Config{Kit: kit, Initramfs: initramfs, Console: filepath.Join(dir, "console"), MemoryMB: 256}, dir
}

func TestMachine_keepsWhatWasSyncedAndLosesWhatWasNot(t *testing.T) {
	cfg, dir := machine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	disk, err := cfg.Kit.NewDisk(ctx, filepath.Join(dir, "disk"), 64)
	require.NoError(t, err)
	cfg.Disks = []*Disk{disk}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	asked := 0
	cfg.freeAddr = func() (string, error) {
		if asked++; asked == 1 {
			return taken.Addr().String(), nil
		}
		return freeAddr()
	}

	m, err := cfg.Boot(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Cut() })
	require.Equal(t, 2, asked, "the port of somebody else was given up")
	t.Logf("kernel %s, its agent was ready after %v", m.Boot().Kernel, m.Boot().Ready)
	// With this interval the kernel writes nothing out merely because time has passed.
	require.NoError(t, m.Mount(ctx, "/dev/vda", "/data", "commit=300"))
	controllers, err := m.Shell(ctx, "cat /sys/fs/cgroup/cgroup.subtree_control")
	require.NoError(t, err)
	require.Subset(t, strings.Fields(controllers), []string{"cpu", "io", "memory", "pids"})
	require.NoError(t, m.WriteFile(ctx, "/data/kept", []byte("kept"), 0o600))
	_, err = m.Shell(ctx, "sync")
	require.NoError(t, err)
	require.NoError(t, m.WriteFile(ctx, "/data/lost", []byte("lost"), 0o600))
	require.NoError(t, m.Cut())
	require.NoError(t, m.Cut(), "it is dark already")
	_, err = m.Status(ctx)
	require.Error(t, err)

	look, err := disk.Look(ctx, dir)
	require.NoError(t, err)
	require.Empty(t, look.Damage)
	require.NoError(t, look.Dump(ctx, "/", filepath.Join(dir, "dump")))
	require.FileExists(t, filepath.Join(dir, "dump", "kept"))
	require.NoFileExists(t, filepath.Join(dir, "dump", "lost"))
	require.NoError(t, look.Remove())

	before := m.Boot().BootID
	m, err = cfg.Boot(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Cut() })
	require.NotEqual(t, before, m.Boot().BootID)
	require.NoError(t, m.Mount(ctx, "/dev/vda", "/data", "commit=300"))
	require.NoError(t, m.WriteFile(ctx, "/data/late", []byte("late"), 0o600))
	_, err = m.Start(ctx, guest.Command{Argv: []string{"sleep", "1000"}})
	require.NoError(t, err)
	require.NoError(t, m.PowerOff(ctx), "in order: what was not synced is kept")
	out, code, err := (&Look{path: disk.Path, kit: cfg.Kit}).check(ctx, "-f", "-n")
	require.NoError(t, err)
	require.Zero(t, code, out)
	look, err = disk.Look(ctx, dir)
	require.NoError(t, err)
	require.NoError(t, look.Dump(ctx, "/", filepath.Join(dir, "off")))
	require.FileExists(t, filepath.Join(dir, "off", "late"))
}

func TestMachine_runsCommands(t *testing.T) {
	cfg, _ := machine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	m, err := cfg.Boot(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Cut() })
	_, err = m.ReadFile(ctx, "/nothing")
	require.ErrorIs(t, err, fs.ErrNotExist)
	r, err := m.Run(ctx, guest.Command{Argv: []string{"sh", "-c", "cat; echo $X >&2; exit 7"}, Env: []string{"X=x"}, Stdin: []byte("in")})
	require.NoError(t, err)
	require.Equal(t, guest.Result{Code: 7, Stdout: []byte("in"), Stderr: []byte("x\n")}, r)
	_, err = m.Shell(ctx, "echo why >&2; exit 3")
	require.ErrorContains(t, err, "exit code 3: why")

	hurried, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	_, err = m.Run(hurried, guest.Command{Argv: []string{"sleep", "1000.25"}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = m.Shell(ctx, "while pgrep -f 1000.25; do sleep 0.01; done")
	require.NoError(t, err, "a command ends with its caller")

	p, err := m.Start(ctx, guest.Command{Argv: []string{"sh", "-c", "echo begun; sleep 0.2; touch /run/there; exit 9"}, Log: "/run/log"})
	require.NoError(t, err)
	require.NoError(t, m.AwaitFile(ctx, "/run/the*"))
	r, err = p.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, 9, r.Code)
	text, err := m.ReadFile(ctx, "/run/log")
	require.NoError(t, err)
	require.Equal(t, "begun\n", string(text))
}

func TestCheckClock(t *testing.T) {
	for name, tc := range map[string]struct {
		inside, here time.Duration
		ok           bool
	}{
		"as it should be":         {2 * time.Second, 3 * time.Second, true},
		"the kernel began late":   {time.Second, 11 * time.Second, true},
		"a little fast":           {3100 * time.Millisecond, 3 * time.Second, true},
		"many times over":         {317 * time.Second, 6 * time.Second, false},
		"far too slow":            {time.Second, 40 * time.Second, false},
		"slow, but it began late": {12 * time.Second, 30 * time.Second, true},
	} {
		err := checkClock(tc.inside, tc.here)
		if tc.ok {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, errClock, name)
		}
	}
}
