package runner

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/isolation/leveltest"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// openRoom has the temporary directories of the machine, which tests share with their tasks.
func openRoom() confine.Room {
	var room confine.Room
	for _, dir := range []string{os.TempDir(), "/dev/shm", "/sys/fs/cgroup"} {
		room.Mounts = append(room.Mounts, confine.Mount{Kind: confine.Bound, From: dir, To: dir, Write: true, Optional: true})
	}
	return room
}

// numbersOfTheMachine skips a test whose script names processes: those in a room have other numbers.
func numbersOfTheMachine(t *testing.T) {
	t.Helper()
	if leveltest.Level() == isolation.Full {
		t.Skip("its script names processes by their numbers outside of a room")
	}
}

// lodging returns the specification of a task with a control group and namespaces.
func lodging(t *testing.T, argv ...string) shim.Spec {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes namespaces")
	}
	spec := newSpec(argv...)
	spec.Cgroup, spec.Room = filepath.Join(delegated(t), "task"), openRoom()
	return spec
}

// hostPid returns the number that the machine has for a process of a task.
func hostPid(t *testing.T, spec shim.Spec, inside string) int {
	t.Helper()
	for _, pid := range confine.GroupProcesses(spec.Cgroup) {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err == nil && strings.Contains(string(status), "\nNSpid:\t"+strconv.Itoa(pid)+"\t"+inside+"\n") {
			return pid
		}
	}
	require.FailNow(t, "no such process", "%s in %s", inside, spec.Cgroup)
	return 0
}

func TestRoom_endsAsTheCommandDoes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 250": 250, "kill -USR1 $$": 138, "kill -9 $$": 137, "sleep 1000 & setsid sleep 1000 & exit 7": 7} {
		h, dir := start(t, lodging(t, "sh", "-c", script))
		pid := running(t, h)
		exit := exited(t, h)
		require.Equal(t, want, exit.Code, script)
		require.Equal(t, pid, exit.Pid)
		require.Positive(t, exit.MaxRSSKB)
		require.Equal(t, 2*strings.Count(script, "& setsid"), exit.Killed)
		shimGone(t, dir)
	}
}

// The first process of a PID namespace ignores signals without a handler, so the command must not be that one.
func TestRoom_signalsReachTheCommand(t *testing.T) {
	for script, want := range map[string]int{
		"trap 'exit 7' USR1; echo up; while :; do sleep 0.01; done":               7,
		"trap '' USR1; echo up; while :; do sleep 0.01; done":                     143,
		"trap '' USR1; trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done": 9,
		"trap '' USR1 TERM; echo up; while :; do sleep 0.01; done":                137,
		"echo up; while :; do sleep 0.01; done":                                   138,
	} {
		h, dir := start(t, lodging(t, "sh", "-c", script))
		running(t, h)
		waitFor(t, "its trap", func() bool { return len(logLines(t, dir)) > 0 })
		require.NoError(t, h.Stop(shim.StopRequest{Notice: 500 * time.Millisecond, Term: 500 * time.Millisecond}))
		require.Equal(t, want, exited(t, h).Code, script)
	}
}

// A daemon of a room gets its time to end.
func TestRoom_aDaemonMayEndItself(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said")
	h, _ := start(t, lodging(t, "sh", "-c", "(setsid sh -c 'trap \"echo bye > "+said+"; exit\" TERM; echo up > "+said+"; while :; do sleep 0.01; done' &); while [ ! -s "+said+" ]; do :; done"))
	require.Zero(t, exited(t, h).Code)
	text, err := os.ReadFile(said)
	require.NoError(t, err)
	require.Equal(t, "bye\n", string(text))
}

func TestRoom_aKilledShimTakesItsTaskWithIt(t *testing.T) {
	spec := lodging(t, "sh", "-c", "setsid env -i sleep 1000 & trap '' TERM HUP; echo up; while :; do sleep 0.01; done")
	h, dir := start(t, spec)
	pid := running(t, h)
	waitFor(t, "its processes", func() bool { return len(logLines(t, dir)) == 1 })
	all := confine.GroupProcesses(spec.Cgroup)
	require.GreaterOrEqual(t, len(all), 2)
	require.NoError(t, syscall.Kill(shimOf(t, pid), syscall.SIGKILL))
	require.Equal(t, shim.FailureInternal, exited(t, h).Failure)
	for _, one := range all {
		require.False(t, alive(one))
	}
	require.NoDirExists(t, spec.Cgroup)
}

// An agent that was started again, and a shell, find the task.
func TestRoom_adoptionAndShells(t *testing.T) {
	spec := lodging(t, "sh", "-c", "mount -t tmpfs none /mnt; echo $$ > /dev/shm/own; echo $$; trap 'exit 5' TERM; while :; do sleep 0.01; done")
	spec.Room.Mounts = append(spec.Room.Mounts, confine.Mount{Kind: confine.Memory, To: "/dev/shm", Options: "mode=1777,size=1m"})
	h, dir := start(t, spec)
	pid := running(t, h)
	waitFor(t, "its line", func() bool { return len(stdout(t, dir)) == 1 })
	inside := stdout(t, dir)[0]
	require.Equal(t, pid, hostPid(t, spec, inside))
	h.Close()
	again, err := Attach(dir, spec.Cgroup)
	require.NoError(t, err)
	t.Cleanup(again.Close)
	require.Equal(t, pid, running(t, again))

	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer out.Close()
	shell, err := StartShell(dir, shim.Shell{Argv: []string{"sh", "-c", "cat /dev/shm/own; kill -0 " + inside + " && echo seen; setsid sleep 1000 & exit 3"}}, out, out, out)
	require.NoError(t, err)
	code, known := shell.Wait()
	require.True(t, known)
	require.Equal(t, 3, code)
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	require.Equal(t, inside+"\nseen\n", string(text))
	shell.Close()
	require.NoError(t, again.Stop(shim.StopRequest{Term: time.Hour}))
	require.Equal(t, 5, exited(t, again).Code)
	shimGone(t, dir)
}

// The command looks for its directory and program in its own view, and its files lie in it.
func TestRoom_theViewOfTheTask(t *testing.T) {
	kept := t.TempDir()
	spec := lodging(t, "sh", "-c", "pwd; echo 1 > $DIR/metrics.jsonl && echo metrics; echo x > $DIR/exit.json; ls "+kept)
	dir := filepath.Join(t.TempDir(), "task")
	spec.Env, spec.Cwd = append(spec.Env, "DIR="+dir), ""
	spec.Room = confine.Room{Mounts: []confine.Mount{
		{Kind: confine.Memory, To: "/tmp", Options: "mode=1777,size=1m"},
		{Kind: confine.Bound, From: dir, To: dir},
		{Kind: confine.Bound, From: dir + "/" + shim.MetricsFile, To: dir + "/" + shim.MetricsFile, Write: true},
	}}
	h, err := self.Start(dir, spec, nil)
	require.NoError(t, err)
	t.Cleanup(func() { h.Close(); shimGone(t, dir) })
	require.Equal(t, 2, exited(t, h).Code)
	require.Equal(t, []string{dir, "metrics"}, stdout(t, dir))
	text, err := os.ReadFile(filepath.Join(dir, shim.MetricsFile))
	require.NoError(t, err)
	require.Equal(t, "1\n", string(text))

	spec.Cwd, spec.Room.Mounts = kept, spec.Room.Mounts[:1]
	h, _ = start(t, spec)
	exit := exited(t, h)
	require.Equal(t, shim.FailureCwdMissing, exit.Failure)
	require.Contains(t, exit.Message, kept)
}

// Without its room a task does not run.
func TestRoom_thatCannotBe(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	spec := lodging(t, "touch", ran)
	spec.Room.Mounts = append(spec.Room.Mounts, confine.Mount{Kind: confine.Memory, To: "/mnt", Options: "no-such-option"})
	h, _ := start(t, spec)
	exit := exited(t, h)
	require.Equal(t, shim.FailureUnfit, exit.Failure)
	require.Equal(t, "cannot isolate the task: mount /mnt on node n1: invalid argument", exit.Message)
	require.NoFileExists(t, ran)

	spec = lodging(t, "touch", ran)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("/", link))
	spec.Room.Mounts = append(spec.Room.Mounts, confine.Mount{Kind: confine.Bound, From: link, To: "/mnt", Write: true})
	h, _ = start(t, spec)
	exit = exited(t, h)
	require.Equal(t, shim.FailureLaunch, exit.Failure, "the job is to blame")
	require.NoFileExists(t, ran)
}

// A shim whose task had a room starts the next one without, and the other way round.
func TestRoom_ofTheTasksOfOneShim(t *testing.T) {
	spec := lodging(t, "sh", "-c", "echo $PPID; umask; echo x > /etc/mind-was-here || echo free")
	plain := newSpec("sh", "-c", "[ $PPID = 0 ] && echo inside; umask")
	plain.Room = confine.Room{}
	s, parent := newSpare(t, 1)
	defer s.Close()
	for i := range 5 {
		one, want := spec, []string{"0", "0022"}
		if i%2 == 1 {
			one, want = plain, []string{"0022"}
		}
		dir := filepath.Join(parent, string(rune('a'+i)))
		h, err := s.Start(dir, one, nil)
		require.NoError(t, err)
		exited(t, h)
		require.Subset(t, stdout(t, dir), want)
		require.NotContains(t, stdout(t, dir), "inside")
	}
	require.NoFileExists(t, "/etc/mind-was-here")
}
