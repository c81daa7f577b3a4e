package isolation

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// fenced opens the level cgroup with a filter of devices, or skips the test.
func fenced(t *testing.T, cfg Config) *Isolation {
	t.Helper()
	cfg.Node, cfg.DataDir, cfg.Log = testrun.Name(), t.TempDir(), slog.New(slog.DiscardHandler)
	i, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(i.Close)
	if i.filter == nil {
		t.Skip("no filter of devices here")
	}
	return i
}

// opens reports whether a process in a control group can open a device.
func opens(t *testing.T, group, path string) bool {
	t.Helper()
	dir, err := os.Open(group)
	require.NoError(t, err)
	defer dir.Close()
	cmd := exec.Command("sh", "-c", ": < "+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	return cmd.Run() == nil
}

func TestFence(t *testing.T) {
	dir := t.TempDir()
	kmsg := filepath.Join(dir, "kmsg")
	if err := unix.Mknod(kmsg, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 11))); err != nil {
		t.Skip("no devices can be made here:", err)
	}
	i := fenced(t, Config{})
	require.Equal(t, DevicesLeased, i.Devices())
	task := i.Task("task")
	require.NoError(t, i.Fence(task, nil))
	require.False(t, opens(t, task, kmsg))
	require.True(t, opens(t, task, "/dev/null"))
	require.NoError(t, os.Mkdir(filepath.Join(task, "own"), 0o755))
	require.NoError(t, i.Fence(task, nil), "a task that was never started has left its group")
	require.NoDirExists(t, filepath.Join(task, "own"))
	require.False(t, opens(t, task, kmsg))
	confine.RemoveGroup(task)

	listed := fenced(t, Config{Devices: []string{kmsg}})
	require.NoError(t, listed.Fence(listed.Task("task"), nil))
	require.True(t, opens(t, listed.Task("task"), kmsg), "the operator lists it")
	confine.RemoveGroup(listed.Task("task"))
}

func TestFence_settings(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	_, err := Open(Config{Level: "none", Devices: []string{"/dev/null"}, Log: log})
	require.ErrorContains(t, err, "devices is set, and isolation is none")
	require.Equal(t, DevicesAll, (&Isolation{Level: None}).Devices())
	require.NoError(t, (&Isolation{Level: None}).Fence("", []string{"GPU-1"}))
	if i, err := Open(Config{Level: "cgroup", Node: testrun.Name(), DataDir: t.TempDir(), Log: log}); err == nil {
		i.Close()
		_, err = Open(Config{Level: "cgroup", Node: testrun.Name(), DataDir: t.TempDir(), Devices: []string{"/dev/no-such-device"}, Log: log})
		require.ErrorContains(t, err, "no-such-device")
	}
}
