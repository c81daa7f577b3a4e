package runner

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
)

// again runs several tasks one after another in the same shim, and returns their directories. The exit code of each is
// its number.
func again(t *testing.T, s *Starter, w *waiter, parent string, tasks int, spec func(i int) shim.Spec) []string {
	t.Helper()
	var dirs []string
	for i := range tasks {
		dir := filepath.Join(parent, "task"+strconv.Itoa(i))
		foremost(s, w)
		h, err := s.Start(dir, spec(i), nil)
		require.NoError(t, err)
		require.Equal(t, i%100, exited(t, h).Code)
		dirs = append(dirs, dir)
		waitFor(t, "the shim is back", func() bool { return foremost(s, w) })
	}
	return dirs
}

// newUsed returns a starter with one shim, which gets all tasks.
func newUsed(t *testing.T) (*Starter, string, *waiter) {
	t.Helper()
	s, parent := newSpare(t, 1)
	return s, parent, s.waiting[0]
}

// foremost makes a shim the next one that the starter takes. It returns false if the shim is not waiting.
func foremost(s *Starter, w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, w)
	if i < 0 {
		return false
	}
	s.waiting = append(slices.Delete(s.waiting, i, i+1), w)
	return true
}

func text(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	for _, e := range logLines(t, dir) {
		lines = append(lines, e.Text)
	}
	return strings.Join(lines, "\n")
}

// The environment of a task does not depend on whether its shim had another task before.
func TestAUsedShimHandsNothingDown(t *testing.T) {
	s, parent, w := newUsed(t)
	defer s.Close()
	const script = `echo $PPID
grep -E '^(SigBlk|SigIgn|SigCgt|Groups|Seccomp|NoNewPrivs|Umask)' /proc/self/status
cat /proc/self/oom_score_adj /proc/self/limits /proc/self/cgroup
ls /proc/self/fd | wc -l; pwd; ls -A; tr '\0' '\n' < /proc/self/environ
sleep 1000 & trap '' TERM; exit $0`
	dirs := again(t, s, w, parent, 4, func(i int) shim.Spec {
		spec := newSpec("sh", "-c", script, strconv.Itoa(i))
		spec.Cwd = t.TempDir()
		return spec
	})
	wanted := text(t, dirs[0])
	for i, dir := range dirs[1:] {
		require.Equal(t, scrub(wanted), scrub(text(t, dir)), "task %d", i+1)
		exit, err := ReadExit(dir)
		require.NoError(t, err)
		require.Equal(t, 1, exit.Killed, "what the command left behind is of its own task")
	}
}

// scrub removes the names of the working directory and of the control group, which differ between tasks.
func scrub(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, os.TempDir()) && (levelGroup == "" || !strings.Contains(line, filepath.Base(levelGroup)+"/task-")) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func TestAUsedShimKeepsNothing(t *testing.T) {
	s, parent, w := newUsed(t)
	defer s.Close()
	lease := func(i int) shim.Spec {
		spec := newSpec("sh", "-c", "echo out; echo err >&2; exit "+strconv.Itoa(i%100))
		now := shim.Boottime()
		spec.Lease.Deadline = shim.Deadline{StopAt: now + int64(time.Hour), DeadBy: now + int64(2*time.Hour)}
		return spec
	}
	again(t, s, w, parent, 3, lease)
	held := func() (files int, threads string) {
		entries, err := os.ReadDir("/proc/" + strconv.Itoa(w.child.Pid) + "/fd")
		require.NoError(t, err)
		status, err := os.ReadFile("/proc/" + strconv.Itoa(w.child.Pid) + "/status")
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(status), "Threads:")
		threads, _, _ = strings.Cut(rest, "\n")
		return len(entries), strings.TrimSpace(threads)
	}
	before, _ := held()
	require.NoError(t, os.RemoveAll(parent))
	require.NoError(t, os.Mkdir(parent, 0o700))
	again(t, s, w, parent, 100, lease)
	after, threads := held()
	require.Equal(t, before, after, "open files of the shim")
	n, err := strconv.Atoi(threads)
	require.NoError(t, err)
	require.Less(t, n, 20, "threads of the shim")
}

// An agent that restarts attaches to every task that it finds, also to those that have ended.
func TestATaskThatIsOverIsNotTakenForTheNextOfItsShim(t *testing.T) {
	s, parent, w := newUsed(t)
	over := again(t, s, w, parent, 2, func(i int) shim.Spec { return newSpec("sh", "-c", "exit "+strconv.Itoa(i)) })
	dir := filepath.Join(parent, "running")
	h, err := s.Start(dir, newSpec("sleep", "1000"), nil)
	require.NoError(t, err)
	pid := running(t, h)
	h.Close()
	s.Close()
	for i, dir := range over {
		found, err := Attach(dir, "")
		require.NoError(t, err)
		require.Equal(t, i, exited(t, found).Code)
	}
	found, err := Attach(dir, "")
	require.NoError(t, err)
	require.Equal(t, pid, running(t, found))
	require.NoError(t, found.Stop(shim.StopRequest{}))
	require.Equal(t, 143, exited(t, found).Code)
	shimGone(t, dir)
}

// A message to a task that has already ended must not reach the next task of its shim, and the agent does not wait for
// an answer.
func TestAUsedShimHearsNothingOfItsFormerTask(t *testing.T) {
	s, parent, w := newUsed(t)
	defer s.Close()
	again(t, s, w, parent, 1, func(int) shim.Spec { return newSpec("true") })
	now := shim.Boottime()
	late := shim.Deadline{StopAt: now + 1, DeadBy: now + 2}
	_, err := w.conn.WriteString(late.Line() + "stop 0 0\n" + late.Line())
	require.NoError(t, err)
	h, err := s.Start(filepath.Join(parent, "next"), newSpec("sh", "-c", "sleep 0.2; exit 4"), nil)
	require.NoError(t, err)
	exit := exited(t, h)
	require.Equal(t, 4, exit.Code)
	require.False(t, exit.Stopped)
	waitFor(t, "the shim is back", func() bool { return foremost(s, w) })
}

func TestAUsedShimHoldsItsTaskToTheDeadline(t *testing.T) {
	s, parent, w := newUsed(t)
	defer s.Close()
	again(t, s, w, parent, 2, func(i int) shim.Spec {
		spec := newSpec("sh", "-c", "exit "+strconv.Itoa(i))
		now := shim.Boottime()
		spec.Lease.Deadline = shim.Deadline{StopAt: now + int64(time.Hour), DeadBy: now + int64(time.Hour)}
		return spec
	})
	spec := newSpec("sleep", "1000")
	now := shim.Boottime()
	spec.Lease.Deadline = shim.Deadline{StopAt: now + int64(500*time.Millisecond), DeadBy: now + int64(time.Second)}
	dir := filepath.Join(parent, "late")
	h, err := s.Start(dir, spec, nil)
	require.NoError(t, err)
	require.Equal(t, shim.FailureNodeLost, exited(t, h).Failure)
	shimGone(t, dir)
}

// Two agents may be connected at a time, and the shim cannot know which one would give the next task.
func TestAShimThatWasAskedByAnotherAgentIsNotUsedAgain(t *testing.T) {
	s, parent, w := newUsed(t)
	defer s.Close()
	again(t, s, w, parent, 1, func(int) shim.Spec { return newSpec("true") })
	dir := filepath.Join(parent, "task")
	h, err := s.Start(dir, newSpec("sleep", "1000"), nil)
	require.NoError(t, err)
	running(t, h)
	other, err := Attach(dir, "")
	require.NoError(t, err)
	running(t, other)
	require.NoError(t, h.Stop(shim.StopRequest{}))
	require.Equal(t, 143, exited(t, h).Code)
	require.Equal(t, 143, exited(t, other).Code)
	select {
	case <-w.gone:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the shim lives on")
	}
}

func TestAUsedShimEndsWithItsAgent(t *testing.T) {
	s, parent, w := newUsed(t)
	again(t, s, w, parent, 2, func(i int) shim.Spec { return newSpec("sh", "-c", "exit "+strconv.Itoa(i)) })
	dir := filepath.Join(parent, "last")
	h, err := s.Start(dir, newSpec("sleep", "1000"), nil)
	require.NoError(t, err)
	pid := running(t, h)
	h.Close()
	s.Close()
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	select {
	case <-w.gone:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the shim lives on")
	}
	exit, err := ReadExit(dir)
	require.NoError(t, err)
	require.Equal(t, 143, exit.Code)
}

// After a burst only the spare ones are kept.
func TestShimsOfABurstAreDismissed(t *testing.T) {
	numbersOfTheMachine(t)
	s, parent := newSpare(t, 1)
	defer s.Close()
	// The tasks run at the same time, so each has a shim of its own.
	end := filepath.Join(parent, "end")
	script := "echo $PPID; until [ -e " + end + " ]; do sleep 0.01; done"
	var handles []*Handle
	shims := map[int]bool{}
	for i := range 5 {
		dir := filepath.Join(parent, "task"+strconv.Itoa(i))
		h, err := s.Start(dir, newSpec("sh", "-c", script), nil)
		require.NoError(t, err)
		handles = append(handles, h)
		waitFor(t, "the task runs", func() bool { return len(logLines(t, dir)) > 0 })
		pid, err := strconv.Atoi(text(t, dir))
		require.NoError(t, err)
		shims[pid] = true
	}
	require.Len(t, shims, len(handles))
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	for _, h := range handles {
		require.Zero(t, exited(t, h).Code)
	}
	waitFor(t, "the spare one alone", func() bool {
		left := 0
		for pid := range shims {
			if alive(pid) {
				left++
			}
		}
		return s.idle() == 1 && left <= 1
	})
}

// A shim that dies while it waits for another task is not the end of that task.
func TestAUsedShimThatDiedIsReplaced(t *testing.T) {
	s, parent, w := newUsed(t)
	defer s.Close()
	again(t, s, w, parent, 1, func(int) shim.Spec { return newSpec("true") })
	require.NoError(t, syscall.Kill(w.child.Pid, syscall.SIGKILL))
	<-w.gone
	dir := filepath.Join(parent, "next")
	h, err := s.Start(dir, newSpec("sh", "-c", "exit 4"), nil)
	require.NoError(t, err)
	require.Equal(t, 4, exited(t, h).Code)
	shimGone(t, dir)
}

// A stopped (SIGSTOP) shim must not keep the agent from ending.
func TestAShimThatDoesNotGoIsKilled(t *testing.T) {
	s, _, w := newUsed(t)
	require.NoError(t, w.child.Signal(syscall.SIGSTOP))
	s.Close()
	require.False(t, alive(w.child.Pid))
}
