package devices

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Main(m.Run)) }

// group makes a control group, if the machine allows that.
func group(t testing.TB) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		dir := filepath.Join(root, testrun.Name()+"-devices")
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { confine.RemoveGroup(dir) })
		if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err == nil {
			return dir
		}
	}
	t.Skip("no writable cgroup v2 here")
	return ""
}

// Devices of these numbers are in every kernel: random, zero and full. Here they are other devices.
var first, second, third = [2]uint32{1, 8}, [2]uint32{1, 5}, [2]uint32{1, 7}

// machine is a directory with devices and one with what a driver says about them.
type machine struct{ dev, proc string }

func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{t.TempDir(), t.TempDir()}
	for name, numbers := range map[string][2]uint32{"null": {1, 3}, "urandom": {1, 9}} {
		m.node(t, name, numbers)
	}
	return m
}

func (m machine) node(t *testing.T, name string, numbers [2]uint32) {
	t.Helper()
	path := filepath.Join(m.dev, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(numbers[0], numbers[1]))); err != nil {
		t.Skip("no devices can be made here:", err)
	}
}

func (m machine) says(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(m.proc, "driver/nvidia", name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func (m machine) gpu(t *testing.T, minor int, numbers [2]uint32) {
	t.Helper()
	m.node(t, "nvidia"+strconv.Itoa(minor), numbers)
	m.says(t, "gpus/0000:0"+strconv.Itoa(minor)+":00.0/information",
		"Model: \t\t NVIDIA H100\nIRQ:   \t\t 18\nGPU UUID: \t GPU-"+strconv.Itoa(minor)+"\nDevice Minor: \t "+strconv.Itoa(minor)+"\nGPU Excluded:\t No\n")
}

func (m machine) open(t *testing.T, group string, more ...string) *Filter {
	t.Helper()
	f, err := Open(Config{Group: group, More: more, Log: slog.New(slog.DiscardHandler), dev: m.dev, proc: m.proc})
	if err != nil {
		t.Skip("the kernel filters no devices here:", err)
	}
	t.Cleanup(f.Close)
	return f
}

// opens returns those devices that a process in a control group can open.
func (m machine) opens(t *testing.T, group string) (names []string) {
	t.Helper()
	dir, err := os.Open(group)
	require.NoError(t, err)
	defer dir.Close()
	cmd := exec.Command("sh", "-c", `for f in $(find . -type c | sort); do (exec 3<$f) 2>/dev/null && echo ${f#./}; done; true`)
	cmd.Dir, cmd.SysProcAttr = m.dev, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// sub makes a group of a task.
func sub(t *testing.T, group, name string) string {
	t.Helper()
	dir := filepath.Join(group, name)
	require.NoError(t, os.Mkdir(dir, 0o755))
	return dir
}

func TestAttach_theGPUsOfTheLease(t *testing.T) {
	m, top := newMachine(t), group(t)
	m.gpu(t, 0, first)
	m.gpu(t, 1, second)
	m.node(t, "other", third)
	free := sub(t, top, "free")
	require.ElementsMatch(t, []string{"null", "urandom", "nvidia0", "nvidia1", "other"}, m.opens(t, free), "the test itself may open them all")
	f := m.open(t, sub(t, top, "try"))
	require.True(t, f.All())
	for name, c := range map[string]struct{ leased, want []string }{
		"none":      {nil, []string{"null", "urandom"}},
		"one":       {[]string{"GPU-0"}, []string{"null", "nvidia0", "urandom"}},
		"another":   {[]string{"GPU-1"}, []string{"null", "nvidia1", "urandom"}},
		"both":      {[]string{"GPU-1", "GPU-0"}, []string{"null", "nvidia0", "nvidia1", "urandom"}},
		"simulated": {[]string{"GPU-sim-n1-0"}, []string{"null", "urandom"}},
	} {
		task := sub(t, top, name)
		require.NoError(t, f.Attach(task, c.leased))
		require.Equal(t, c.want, m.opens(t, task), name)
		require.Equal(t, c.want, m.opens(t, sub(t, task, "own")), "in a group that the task makes")
	}
	require.ErrorContains(t, f.Attach(sub(t, top, "unknown"), []string{"GPU-9"}), "which device GPU GPU-9 is")
	require.NoError(t, os.Remove(filepath.Join(m.dev, "nvidia1")))
	require.ErrorContains(t, f.Attach(sub(t, top, "gone"), []string{"GPU-1"}), "nvidia1, the device of GPU GPU-1, is not there")
	require.NoError(t, os.Remove(filepath.Join(m.dev, "nvidia0")))
	require.NoError(t, f.Attach(sub(t, top, "nothing"), []string{"GPU-1"}), "a driver without devices: there is nothing to filter")
}

// The filter belongs to the group: neither the end of its agent nor a filter of a group above takes it away.
func TestAttach_outlivesTheAgent(t *testing.T) {
	m, top := newMachine(t), group(t)
	m.node(t, "other", third)
	f := m.open(t, sub(t, top, "try"))
	task := sub(t, top, "task")
	require.NoError(t, f.Attach(task, nil))
	f.Close()
	require.Equal(t, []string{"null", "urandom"}, m.opens(t, task))
	// As systemd does it for a unit, also when it reads its configuration again.
	all, err := load(assemble([]rule{{major: 1, anyMinor: true}}))
	require.NoError(t, err)
	defer unix.Close(all)
	unit, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(unit)
	require.NoError(t, attach(unit, all))
	require.Equal(t, []string{"null", "urandom"}, m.opens(t, task))
}

func TestAttach_instancesOfAGPU(t *testing.T) {
	m, top := newMachine(t), group(t)
	m.gpu(t, 0, first)
	m.node(t, "nvidia-caps/nvidia-cap1", third) // changes instances
	m.node(t, "nvidia-caps/nvidia-cap30", second)
	m.says(t, "capabilities/mig/config", "DeviceFileMinor: 1\n")
	m.says(t, "capabilities/gpu0/mig/gi1/access", "DeviceFileMinor: 30\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
	m.says(t, "capabilities/gpu0/mig/gi1/ci0/access", "DeviceFileMinor: 31\n") // has no device yet
	f := m.open(t, sub(t, top, "try"))
	task, other := sub(t, top, "task"), sub(t, top, "other")
	require.NoError(t, f.Attach(task, []string{"GPU-0"}))
	require.Equal(t, []string{"null", "nvidia-caps/nvidia-cap30", "nvidia0", "urandom"}, m.opens(t, task))
	require.NoError(t, f.Attach(other, nil))
	require.Equal(t, []string{"null", "urandom"}, m.opens(t, other))

	// A lease of one slice gives no other.
	m.node(t, "nvidia-caps/nvidia-cap31", second)
	m.node(t, "nvidia-caps/nvidia-cap40", third)
	m.says(t, "capabilities/gpu0/mig/gi11/access", "DeviceFileMinor: 40\n")
	slice := sub(t, top, "slice")
	require.NoError(t, f.Attach(slice, []string{"GPU-0/1/0"}))
	require.Equal(t, []string{"null", "nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31", "nvidia0", "urandom"}, m.opens(t, slice))
}

// Devices that all GPUs share, those of RDMA, and those that the operator adds.
func TestAttach_whatIsListed(t *testing.T) {
	for _, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia-fs0", "infiniband/uverbs0", "more"} {
		m, top := newMachine(t), group(t)
		m.node(t, name, third)
		var more []string
		if name == "more" {
			more = []string{filepath.Join(m.dev, name)}
		}
		f := m.open(t, sub(t, top, "try"), more...)
		task := sub(t, top, "task")
		require.NoError(t, f.Attach(task, nil))
		require.Contains(t, m.opens(t, task), name)
		confine.RemoveGroup(top)
	}
}

func TestCheck(t *testing.T) {
	require.NoError(t, Check([]string{"/dev/null", "/dev"}))
	for _, path := range []string{"/dev/no-such-device", "/etc/passwd", "dev/null"} {
		require.ErrorContains(t, Check([]string{path}), path)
	}
}

// A driver that does not say which device a GPU is: better all of them than a node that no training can use.
func TestOpen_GPUsWithoutNumbers(t *testing.T) {
	m, top := newMachine(t), group(t)
	m.node(t, "nvidia0", first)
	f := m.open(t, sub(t, top, "try"))
	require.False(t, f.All())
	task := sub(t, top, "task")
	require.NoError(t, f.Attach(task, []string{"GPU-0"}))
	require.Equal(t, []string{"null", "nvidia0", "urandom"}, m.opens(t, task))
}

func TestFilter_keepsFewPrograms(t *testing.T) {
	m, top := newMachine(t), group(t)
	f := m.open(t, top)
	for n := range uint32(mostPrograms + 3) {
		_, err := f.load([]rule{{major: n}})
		require.NoError(t, err)
		require.LessOrEqual(t, len(f.programs), mostPrograms)
	}
}

func BenchmarkAttach(b *testing.B) {
	top := group(b)
	f, err := Open(Config{Group: top, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Skip(err)
	}
	defer f.Close()
	task := filepath.Join(top, "task")
	for b.Loop() {
		require.NoError(b, os.Mkdir(task, 0o755))
		require.NoError(b, f.Attach(task, nil))
		require.NoError(b, os.Remove(task))
	}
}
