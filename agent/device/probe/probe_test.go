package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/device"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

const childEnv = "MIND_TEST_PROBE_MOOD"

// TestMain makes the test binary the child process, with a driver whose behavior a file sets.
func TestMain(m *testing.M) {
	if file := os.Getenv(childEnv); file != "" {
		err := Serve(os.Stdin, os.Stdout, func() (device.Inventory, error) { return &moody{file: file}, nil }, func() { os.Exit(0) })
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testrun.Main(m.Run))
}

type moody struct {
	device.None
	file  string
	heard func(string, int)
}

func (d *moody) OnXid(f func(string, int)) { d.heard = f }

func (d *moody) List(context.Context) ([]device.Device, error) {
	mood, _ := os.ReadFile(d.file)
	word, rest, _ := strings.Cut(string(mood), " ")
	switch word {
	case "hang":
		if err := os.WriteFile(d.file+".pid", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			panic(err)
		}
		for {
			_ = unix.Pause()
		}
	case "hang-in-a-program":
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		if err := os.WriteFile(d.file+".pid", []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
			panic(err)
		}
		return nil, cmd.Wait()
	case "crash":
		fmt.Fprintln(os.Stderr, "the library fell over")
		os.Exit(3)
	case "fail":
		return nil, errors.New(rest)
	case "xid":
		d.heard("GPU-a", 79)
	}
	return []device.Device{{UUID: "GPU-a", Index: 0, NVLink: []int{1}, Fault: true}}, nil
}

func (d *moody) Processes(_ context.Context, uuid string) ([]device.Process, error) {
	return []device.Process{{Pid: len(uuid), MemMB: os.Getpid()}}, nil
}

type fixture struct {
	*Client
	t    *testing.T
	mood string
}

func newFixture(t *testing.T, limit time.Duration) fixture {
	f := fixture{t: t, mood: filepath.Join(t.TempDir(), "mood")}
	f.Client = New(Config{
		Argv: []string{"/proc/self/exe"}, Env: []string{childEnv + "=" + f.mood}, Limit: limit, First: max(limit, time.Minute), Pause: time.Millisecond,
	})
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func (f fixture) feel(mood string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(f.mood+".new", []byte(mood), 0o600))
	require.NoError(f.t, os.Rename(f.mood+".new", f.mood))
}

// recovers waits until the driver answers again.
func (f fixture) recovers() {
	f.t.Helper()
	f.feel("well")
	for giveUp := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		_, err := f.List(context.Background())
		if err == nil {
			return
		}
		require.True(f.t, time.Now().Before(giveUp), "the driver never answers again: %v", err)
	}
}

// hangs makes the driver hang until the child is killed because of it, and returns the pid of the child. On a busy
// machine the child may be killed before it gets as far as the hanging call.
func (f fixture) hangs(mood string) int {
	f.t.Helper()
	for giveUp := time.Now().Add(time.Minute); ; {
		f.recovers()
		f.feel(mood)
		_, err := f.List(context.Background())
		require.ErrorIs(f.t, err, device.ErrHung)
		if data, err := os.ReadFile(f.mood + ".pid"); err == nil {
			if pid, err := strconv.Atoi(string(data)); err == nil {
				return pid
			}
		}
		require.True(f.t, time.Now().Before(giveUp), "the child never comes to where it hangs")
	}
}

// hangingPid waits for the child to hang.
func (f fixture) hangingPid() int {
	f.t.Helper()
	pid := 0
	require.Eventually(f.t, func() bool {
		data, err := os.ReadFile(f.mood + ".pid")
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(string(data))
		return err == nil
	}, 30*time.Second, time.Millisecond)
	return pid
}

func (f fixture) dies(pid int) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }, 30*time.Second, time.Millisecond)
}

func TestTheChildAnswers(t *testing.T) {
	f := newFixture(t, time.Minute)
	devices, err := f.List(context.Background())
	require.NoError(t, err)
	require.Equal(t, []device.Device{{UUID: "GPU-a", NVLink: []int{1}, Fault: true}}, devices)
	users, err := f.ProcessesOf(context.Background(), []string{"a", "bb"})
	require.NoError(t, err)
	require.Equal(t, 2, users["bb"][0].Pid)
	require.NotEqual(t, os.Getpid(), users["a"][0].MemMB, "it is another process")
	one, err := f.Processes(context.Background(), "ccc")
	require.NoError(t, err)
	require.Equal(t, 3, one[0].Pid)
	require.Equal(t, users["a"][0].MemMB, one[0].MemMB, "and the same all the time")
	f.feel("fail to the bus")
	_, err = f.List(context.Background())
	require.EqualError(t, err, "to the bus")
	require.NotErrorIs(t, err, device.ErrHung)
	f.recovers()
}

func TestAHangingDriverIsKilledAndAskedAgain(t *testing.T) {
	f := newFixture(t, 300*time.Millisecond)
	f.dies(f.hangs("hang"))
	f.recovers()
}

func TestAProgramThatTheChildRunsIsKilledWithIt(t *testing.T) {
	f := newFixture(t, 2*time.Second)
	f.dies(f.hangs("hang-in-a-program"))
	f.recovers()
}

func TestWhatCannotBeKilledIsNotAddedToForEver(t *testing.T) {
	f := newFixture(t, time.Minute)
	f.mu.Lock()
	f.stuck = maxStuck
	f.mu.Unlock()
	_, err := f.List(context.Background())
	require.ErrorIs(t, err, device.ErrHung)
	require.ErrorContains(t, err, "3 processes hang in it")
	f.mu.Lock()
	f.stuck = 0
	f.mu.Unlock()
	f.recovers()
}

func TestImpatienceKillsNobody(t *testing.T) {
	f := newFixture(t, time.Hour)
	f.recovers()
	f.feel("hang")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := f.List(ctx)
	require.ErrorIs(t, err, device.ErrHung)
	// The next call does not get its turn.
	_, err = f.Processes(ctx, "a")
	require.ErrorIs(t, err, device.ErrHung)
	pid := f.hangingPid()
	require.NoError(t, unix.Kill(pid, 0))
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	f.recovers()
}

func TestAChildThatFallsOverIsReplaced(t *testing.T) {
	f := newFixture(t, time.Minute)
	f.feel("crash")
	_, err := f.List(context.Background())
	require.ErrorContains(t, err, "the library fell over")
	f.recovers()
}

func TestTheChildEndsWithTheAgentEvenWhileItHangs(t *testing.T) {
	f := newFixture(t, time.Hour)
	f.feel("hang")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		f.hangingPid()
		cancel()
	}()
	_, err := f.List(ctx)
	require.Error(t, err)
	// The pipe ends and the child is not killed, as when the agent dies.
	pid := f.hangingPid()
	f.mu.Lock()
	child := f.child
	f.mu.Unlock()
	require.NoError(t, child.in.Close())
	f.dies(pid)
}

func TestXidErrorsReachTheAgent(t *testing.T) {
	f := newFixture(t, time.Minute)
	heard := make(chan string, 1)
	f.OnXid(func(uuid string, code int) { heard <- fmt.Sprint(uuid, " ", code) })
	f.feel("xid")
	_, err := f.List(context.Background())
	require.NoError(t, err)
	require.Equal(t, "GPU-a 79", <-heard)
}

func TestTheExecutableIsTheChildWhenToldSo(t *testing.T) {
	c := New(Config{})
	defer c.Close()
	devices, err := c.List(context.Background())
	if err == nil {
		t.Skipf("this machine has %d GPUs", len(devices))
	}
	require.ErrorIs(t, err, device.ErrNoDriver)
}
