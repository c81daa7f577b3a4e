package runner

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/isolation/leveltest"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/tasklog"
)

// executable is the test binary: it imports package shim, so it can also be a shim.
const executable = "/proc/self/exe"

// self starts a new process for every shim.
var self = NewStarter(executable, "", os.Stderr, 0)

var testEnv = []string{"PATH=" + os.Getenv("PATH")}

func newSpec(argv ...string) shim.Spec {
	env := append(slices.Clone(testEnv), "TMPDIR="+os.TempDir()) // as tasks have it; it shows that they belong to this run
	spec := shim.Spec{JobID: "job_x", Attempt: 1, Node: "n1", Argv: argv, Env: env, Cwd: "/"}
	switch leveltest.Level() {
	case isolation.Full:
		spec.Room = openRoom()
	case isolation.Cgroup:
		spec.Cgroup = filepath.Join(levelGroup, "task-"+strconv.FormatUint(levelTasks.Add(1), 10))
	}
	return spec
}

func start(t testing.TB, spec shim.Spec) (*Handle, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "task")
	h, err := self.Start(dir, spec, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = h.Stop(shim.StopRequest{})
		h.Close()
		shimGone(t, dir)
	})
	return h, dir
}

func shimGone(t testing.TB, dir string) {
	t.Helper()
	waitFor(t, "the shim's end", func() bool {
		free, release, err := lock(dir)
		require.NoError(t, err)
		if free {
			release()
		}
		return free
	})
}

func next(t testing.TB, h *Handle) Event {
	t.Helper()
	select {
	case e, ok := <-h.Events():
		require.True(t, ok, "no more events")
		return e
	case <-time.After(30 * time.Second):
		require.FailNow(t, "no event from the shim")
		return Event{}
	}
}

func running(t testing.TB, h *Handle) int {
	t.Helper()
	e := next(t, h)
	require.True(t, e.Running, "%+v", e.Exit)
	return e.Pid
}

func exited(t testing.TB, h *Handle) shim.Exit {
	t.Helper()
	for {
		if e := next(t, h); e.Exit != nil {
			return *e.Exit
		}
	}
}

func logLines(t testing.TB, dir string) []tasklog.Entry {
	t.Helper()
	r := tasklog.NewReader(filepath.Join(dir, shim.LogDir))
	defer r.Close()
	entries, err := r.Next(1 << 20)
	require.NoError(t, err)
	return entries
}

func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), what)
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return !strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " Z")
}

func TestExitCodes(t *testing.T) {
	for script, want := range map[string]shim.Exit{
		"exit 0":                {Code: 0},
		"exit 3":                {Code: 3, Message: "exited with code 3"},
		"kill -TERM $$":         {Code: 143, Signal: 15, Message: "killed by signal 15 (terminated)"},
		"echo oh no >&2; false": {Code: 1, Message: "exited with code 1; last line of stderr: oh no"},
		"echo torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB >&2; echo bye >&2; exit 1": {
			Code: 1, Failure: shim.FailureOOM, Message: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
		},
	} {
		t.Run(script, func(t *testing.T) {
			h, dir := start(t, newSpec("sh", "-c", script))
			pid := running(t, h)
			got := exited(t, h)
			require.Equal(t, pid, got.Pid)
			require.LessOrEqual(t, got.Started, got.Ended)
			require.Positive(t, got.MaxRSSKB)
			require.Equal(t, want, shim.Exit{Code: got.Code, Signal: got.Signal, Failure: got.Failure, Message: got.Message})
			waitFor(t, "exit.json", func() bool {
				onDisk, err := ReadExit(dir)
				return err == nil && onDisk == got
			})
		})
	}
}

func TestWhatCannotBeLaunchedSaysWhy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	plain := write("plain", "hello", 0o644)
	noInterpreter := write("script", "#!/no/such/interpreter\n", 0o755)
	notProgram := write("data", "\x01\x02", 0o755)
	for name, c := range map[string]struct {
		spec          shim.Spec
		kind, message string
	}{
		"cwd missing": {
			shim.Spec{Argv: []string{"true"}, Cwd: dir + "/x"},
			shim.FailureCwdMissing, "working directory " + dir + "/x does not exist on node n1; create it there, or submit with a cwd that exists on every node (a shared file system)",
		},
		"cwd is a file":        {shim.Spec{Argv: []string{"true"}, Cwd: plain}, shim.FailureCwdMissing, "is not a directory on node n1"},
		"not in PATH":          {shim.Spec{Argv: []string{"no-such-program"}, Cwd: "/"}, shim.FailureLaunch, `program "no-such-program" was not found on node n1`},
		"no file":              {shim.Spec{Argv: []string{"./nothing"}, Cwd: dir}, shim.FailureLaunch, "cannot run ./nothing on node n1: no such file or directory"},
		"not executable":       {shim.Spec{Argv: []string{"./plain"}, Cwd: dir}, shim.FailureLaunch, "not executable"},
		"interpreter missing":  {shim.Spec{Argv: []string{noInterpreter}, Cwd: "/"}, shim.FailureLaunch, "interpreter or loader"},
		"neither program":      {shim.Spec{Argv: []string{notProgram}, Cwd: "/"}, shim.FailureLaunch, "neither a program"},
		"no command":           {shim.Spec{Cwd: "/"}, shim.FailureLaunch, "no command"},
		"refused by the agent": {shim.Spec{Argv: []string{"true"}, Refusal: "because"}, shim.FailureLaunch, "because"},
		"output dir":           {shim.Spec{Argv: []string{"true"}, Dirs: []string{plain + "/out"}}, shim.FailureLaunch, "cannot make directory"},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Node, c.spec.Env = "n1", testEnv
			h, _ := start(t, c.spec)
			e := next(t, h)
			require.NotNil(t, e.Exit, "it ran")
			require.Equal(t, c.kind, e.Exit.Failure)
			require.Contains(t, e.Exit.Message, c.message)
			require.Equal(t, -1, e.Exit.Code)
			require.Zero(t, e.Exit.Pid)
		})
	}
}

func TestEveryLineOfManyIsKeptInOrder(t *testing.T) {
	spec := newSpec("sh", "-c", "i=0; while [ $i -lt 1000 ]; do echo err $i >&2; i=$((i+1)); done & seq 1 100000; wait")
	spec.SegmentBytes = 1 << 20
	h, dir := start(t, spec)
	require.Zero(t, exited(t, h).Code)
	out, errs := 0, 0
	for _, e := range logLines(t, dir) {
		switch e.Kind {
		case tasklog.Stdout:
			out++
			require.Equal(t, strconv.Itoa(out), e.Text)
		case tasklog.Stderr:
			require.Equal(t, fmt.Sprintf("err %d", errs), e.Text)
			errs++
		}
	}
	require.Equal(t, 100_000, out)
	require.Equal(t, 1000, errs)
}

func TestTheCommandHasItsOwnSessionEnvironmentAndNoInput(t *testing.T) {
	numbersOfTheMachine(t)
	spec := newSpec("sh", "-c", `echo $A; pwd; cat; ps -o sid= -p $$ | tr -d ' '; echo $$; for i in 0 1 2 3 4 5 6 7 8 9 249 250 251 252; do [ -e /proc/$$/fd/$i ] && printf "$i "; done; trap`)
	spec.Env = append(spec.Env, "A=b c")
	spec.Cwd = "/usr"
	h, dir := start(t, spec)
	pid := running(t, h)
	require.Zero(t, exited(t, h).Code)
	var lines []string
	for _, e := range logLines(t, dir) {
		lines = append(lines, e.Text)
	}
	require.Equal(t, []string{"b c", "/usr", strconv.Itoa(pid), strconv.Itoa(pid), "0 1 2 "}, lines)
}

func TestADaemonThatTheCommandLeavesIsKilled(t *testing.T) {
	numbersOfTheMachine(t)
	pids := filepath.Join(t.TempDir(), "pids")
	script := `for i in 1 2 3; do setsid sh -c 'trap "" TERM HUP; echo $$ >> ` + pids + `; (setsid sleep 1000 & echo $! >> ` + pids + `); sleep 1000' & done
		while [ "$(wc -l < ` + pids + `)" -lt 6 ]; do :; done; exit 5`
	require.NoError(t, os.WriteFile(pids, nil, 0o600))
	h, _ := start(t, newSpec("sh", "-c", script))
	running(t, h)
	exit := exited(t, h)
	require.Equal(t, 5, exit.Code)
	require.GreaterOrEqual(t, exit.Killed, 6)
	data, err := os.ReadFile(pids)
	require.NoError(t, err)
	list := strings.Fields(string(data))
	require.Len(t, list, 6)
	for _, text := range list {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		require.False(t, alive(pid), "process %d of the task is alive after its end was told", pid)
	}
}

func TestStopEscalates(t *testing.T) {
	ready := func(t *testing.T, h *Handle, dir string) {
		running(t, h)
		waitFor(t, "ready", func() bool { return len(logLines(t, dir)) > 0 })
	}
	t.Run("notice is answered", func(t *testing.T) {
		h, dir := start(t, newSpec("sh", "-c", `trap 'echo saved; exit 7' USR1; echo up; while :; do sleep 0.01; done`))
		ready(t, h, dir)
		require.NoError(t, h.Stop(shim.StopRequest{Notice: time.Hour, Term: time.Hour}))
		exit := exited(t, h)
		require.Equal(t, 7, exit.Code)
		require.True(t, exit.Stopped)
	})
	t.Run("TERM after the notice", func(t *testing.T) {
		h, dir := start(t, newSpec("sh", "-c", `trap '' USR1; trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done`))
		ready(t, h, dir)
		require.NoError(t, h.Stop(shim.StopRequest{Notice: 20 * time.Millisecond, Term: time.Hour}))
		require.Equal(t, 9, exited(t, h).Code)
	})
	t.Run("KILL for who ignores all", func(t *testing.T) {
		h, dir := start(t, newSpec("sh", "-c", `trap '' USR1 TERM; echo up; while :; do sleep 0.01; done`))
		ready(t, h, dir)
		require.NoError(t, h.Stop(shim.StopRequest{Notice: 10 * time.Millisecond, Term: 10 * time.Millisecond}))
		require.Equal(t, 137, exited(t, h).Code)
	})
	t.Run("no notice when none is due", func(t *testing.T) {
		h, dir := start(t, newSpec("sh", "-c", `trap 'exit 1' USR1; trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done`))
		ready(t, h, dir)
		require.NoError(t, h.Stop(shim.StopRequest{Term: time.Hour}))
		require.Equal(t, 9, exited(t, h).Code)
	})
	t.Run("a later request hurries", func(t *testing.T) {
		h, dir := start(t, newSpec("sh", "-c", `trap '' USR1 TERM; echo up; while :; do sleep 0.01; done`))
		ready(t, h, dir)
		require.NoError(t, h.Stop(shim.StopRequest{Notice: time.Hour, Term: time.Hour}))
		require.NoError(t, h.Stop(shim.StopRequest{Term: 10 * time.Millisecond}))
		require.Equal(t, 137, exited(t, h).Code)
	})
	t.Run("who was stopped is woken", func(t *testing.T) {
		h, dir := start(t, newSpec("sh", "-c", `trap 'exit 9' TERM; echo up; kill -STOP $$; while :; do sleep 0.01; done`))
		ready(t, h, dir)
		require.NoError(t, h.Stop(shim.StopRequest{Term: time.Hour}))
		require.Equal(t, 9, exited(t, h).Code)
	})
}

func shimOf(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	require.NoError(t, err)
	return parent
}

func TestTheShimIsDeafToTheSignalsOfOthers(t *testing.T) {
	h, dir := start(t, newSpec("sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.01; done; exit 4"))
	pid := running(t, h)
	waitFor(t, "settled", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", shimOf(t, pid)))
		require.NoError(t, err)
		_, mask, _ := strings.Cut(string(status), "SigIgn:\t")
		ignored, err := strconv.ParseUint(mask[:16], 16, 64)
		require.NoError(t, err)
		return ignored&(1<<(syscall.SIGPIPE-1)) != 0 // the last signal that the shim ignores
	})
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		require.NoError(t, syscall.Kill(shimOf(t, pid), signal))
	}
	again, err := Attach(dir, "")
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, pid, running(t, again))
	require.NoError(t, again.Stop(shim.StopRequest{Term: time.Hour}))
	require.Equal(t, 143, exited(t, h).Code)
	require.Equal(t, 143, exited(t, again).Code)
}

func TestAttachAfterTheEnd(t *testing.T) {
	h, dir := start(t, newSpec("sh", "-c", "exit 3"))
	h.Close()
	waitFor(t, "exit.json", func() bool { _, err := ReadExit(dir); return err == nil })
	again, err := Attach(dir, "")
	require.NoError(t, err)
	require.Equal(t, 3, exited(t, again).Code)
}

func TestAKilledShimTakesItsTaskWithIt(t *testing.T) {
	numbersOfTheMachine(t)
	spec := newSpec("sh", "-c", "setsid sleep 1000 & echo $!; exec sleep 1000")
	spec.JobID = "job_" + filepath.Base(t.TempDir()) + strconv.Itoa(os.Getpid())
	spec.Env = append(spec.Env, "MIND_JOB_ID="+spec.JobID, "MIND_ATTEMPT=1", "MIND_NODE_RANK=0")
	h, dir := start(t, spec)
	pid := running(t, h)
	waitFor(t, "the daemon's pid", func() bool { return len(logLines(t, dir)) > 0 })
	daemon, err := strconv.Atoi(logLines(t, dir)[0].Text)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(shimOf(t, pid), syscall.SIGKILL))
	exit := exited(t, h)
	require.Equal(t, shim.FailureInternal, exit.Failure)
	require.Equal(t, -1, exit.Code)
	require.Positive(t, exit.Killed)
	require.False(t, alive(pid))
	require.False(t, alive(daemon))
	onDisk, err := ReadExit(dir)
	require.NoError(t, err)
	require.Equal(t, exit, onDisk)
}

// An agent may die after it made the directory, and the shim may still start late.
func TestATaskThatWasNotBegunCannotBeginLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "task")
	require.NoError(t, os.Mkdir(dir, 0o700))
	marker := filepath.Join(t.TempDir(), "ran")
	spec := newSpec("touch", marker)
	require.NoError(t, os.WriteFile(filepath.Join(dir, shim.SpecFile), spec.Encode(), 0o600))
	_, err := Attach(dir, "")
	require.ErrorIs(t, err, ErrNotBegun)
	late := exec.Command(executable, shim.Command, "--dir", dir)
	require.Error(t, late.Run())
	require.NoFileExists(t, marker)
}

// Files in a task directory are not synced. After a power cut any of them may be empty, incomplete or missing.
func TestWhatAPowerCutLeavesOfATask(t *testing.T) {
	spec := newSpec("true")
	whole, begun := string(spec.Encode()), string(spec.Encode())+"begun \"\"\n"
	exit := string(shim.Exit{Code: 3, Pid: 7}.JSON())
	log := "00000000000000000000.log"
	for name, c := range map[string]struct {
		files map[string]string
		code  int  // of the reported exit; -1: unknown
		never bool // it counts as never begun: it may be launched, and its directory removed
	}{
		"all of it":                        {files: map[string]string{"task": begun, log: "1 o x\n", "exit.json": exit}, code: 3},
		"an empty exit":                    {files: map[string]string{"task": begun, "exit.json": ""}, code: -1},
		"half an exit":                     {files: map[string]string{"task": begun, "exit.json": exit[:20]}, code: -1},
		"an exit of zeros":                 {files: map[string]string{"task": begun, "exit.json": strings.Repeat("\x00", len(exit))}, code: -1},
		"no exit":                          {files: map[string]string{"task": begun}, code: -1},
		"no word that it was begun":        {files: map[string]string{"task": whole, log: "1 o x\n"}, code: -1},
		"half a word that it was begun":    {files: map[string]string{"task": begun[:len(begun)-4]}, code: -1},
		"an empty record and a log":        {files: map[string]string{"task": "", log: "1 o x\n"}, code: -1},
		"an empty record and metrics":      {files: map[string]string{"task": "", "metrics.jsonl": ""}, code: -1},
		"an empty record and an exit":      {files: map[string]string{"task": "", "exit.json": exit}, code: 3},
		"no record and an empty exit":      {files: map[string]string{"exit.json": ""}, code: -1},
		"an empty record":                  {files: map[string]string{"task": ""}, never: true},
		"half a record":                    {files: map[string]string{"task": whole[:40]}, never: true},
		"a record of what was not begun":   {files: map[string]string{"task": whole, "baseline.json": "{}"}, never: true},
		"an empty log of what was not yet": {files: map[string]string{"task": whole, log: ""}, never: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			h, err := Attach(dir, "")
			if c.never {
				require.ErrorIs(t, err, ErrNotBegun)
				return
			}
			require.NoError(t, err)
			told := exited(t, h)
			require.Equal(t, c.code, told.Code)
			if c.code < 0 {
				require.Equal(t, shim.FailureInternal, told.Failure)
				require.NotContains(t, told.Message, "not whole")
			}
			known, err := ReadExit(dir)
			require.NoError(t, err, "it is known from now on")
			require.Equal(t, told, known)
			if c.files[log] != "" {
				require.FileExists(t, filepath.Join(dir, log))
			}
		})
	}
}

func TestACommandIsNotBegunTwice(t *testing.T) {
	h, dir := start(t, newSpec("sleep", "1000"))
	running(t, h)
	require.Error(t, exec.Command(executable, shim.Command, "--dir", dir).Run(), "beside a living shim")
	require.NoError(t, h.Stop(shim.StopRequest{}))
	exited(t, h)
	shimGone(t, dir)
	require.Error(t, exec.Command(executable, shim.Command, "--dir", dir).Run(), "after its end")
}

func TestLongPaths(t *testing.T) {
	parent := filepath.Join(t.TempDir(), strings.Repeat("long-name-", 12), strings.Repeat("long-name-", 12))
	require.NoError(t, os.MkdirAll(parent, 0o700))
	dir := filepath.Join(parent, "task")
	h, err := self.Start(dir, newSpec("sh", "-c", "exit 6"), nil)
	require.NoError(t, err)
	require.Equal(t, 6, exited(t, h).Code)
	shimGone(t, dir)
}
