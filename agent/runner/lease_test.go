package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/isolation/leveltest"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/waittest"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

func TestMain(m *testing.M) {
	waittest.Together()
	os.Exit(testrun.Main(func() int {
		if leveltest.Level() != isolation.Cgroup {
			return m.Run()
		}
		var err error
		if levelGroup, err = leveltest.Group(testrun.Name() + "-level"); err != nil {
			fmt.Fprintln(os.Stderr, "no task can have a control group:", err)
			return 1
		}
		code := m.Run()
		if left, err := filepath.Glob(filepath.Join(levelGroup, "task-*")); err != nil || len(left) > 0 {
			fmt.Fprintln(os.Stderr, "tasks left their control groups:", left, err)
			code = 1
		}
		return code
	}))
}

// At the level cgroup, each task of newSpec has a group in levelGroup.
var (
	levelGroup string
	levelTasks atomic.Uint64
)

// deadlineIn returns a deadline relative to the present.
func deadlineIn(stop, dead time.Duration) shim.Deadline {
	now := shim.Boottime()
	return shim.Deadline{StopAt: now + int64(stop), DeadBy: now + int64(dead), Renewed: now - int64(7*time.Second)}
}

func leased(deadline shim.Deadline, argv ...string) shim.Spec {
	spec := newSpec(argv...)
	spec.Lease = shim.Lease{Ns: int64(time.Minute), StopNs: int64(time.Second), Replaceable: true, Deadline: deadline}
	return spec
}

// deadlineOf returns the deadline in a shim's first message about a task with a lease.
func deadlineOf(t *testing.T, h *Handle) shim.Deadline {
	t.Helper()
	e := next(t, h)
	require.NotNil(t, e.Deadline)
	return *e.Deadline
}

func logged(t *testing.T, dir, text string) bool {
	t.Helper()
	for _, e := range logLines(t, dir) {
		if strings.Contains(e.Text, text) {
			return true
		}
	}
	return false
}

func TestTheShimAloneHoldsATaskToItsDeadline(t *testing.T) {
	numbersOfTheMachine(t)
	t.Parallel()
	script := `trap 'echo noticed' USR1; trap 'echo asked' TERM; setsid sh -c 'trap "" USR1 TERM HUP; while :; do sleep 0.1; done' & echo $!; while :; do sleep 0.05; done`
	deadline := deadlineIn(10*time.Second, 14*time.Second)
	h, dir := start(t, leased(deadline, "sh", "-c", script))
	require.Equal(t, deadline, deadlineOf(t, h))
	pid := running(t, h)
	waitFor(t, "the daemon", func() bool { return len(logLines(t, dir)) > 0 })
	h.Close() // the agent is gone
	shimGone(t, dir)
	require.GreaterOrEqual(t, shim.Boottime(), deadline.StopAt, "it was stopped too early")
	exit, err := ReadExit(dir)
	require.NoError(t, err)
	require.Equal(t, shim.FailureNodeLost, exit.Failure)
	require.Regexp(t, `^stopped by its own node: no coordinator answered for \d+ s$`, exit.Message)
	require.Equal(t, 137, exit.Code)
	require.False(t, alive(pid))
	var daemon int
	for _, e := range logLines(t, dir)[:1] {
		daemon = atoi(t, e.Text)
	}
	require.False(t, alive(daemon), "a process that the task had started lives on")
	require.True(t, logged(t, dir, "noticed"))
	require.True(t, logged(t, dir, "asked"))
	require.True(t, logged(t, dir, "mind: stopped by its own node"))
}

func TestANoticeMayBeAnswered(t *testing.T) {
	t.Parallel()
	h, _ := start(t, leased(deadlineIn(4*time.Second, time.Hour), "sh", "-c", `trap 'exit 7' USR1; while :; do sleep 0.05; done`))
	exit := exited(t, h)
	if exit.Signal == 0 { // the shell had set the trap in time
		require.Equal(t, 7, exit.Code)
	}
	require.Equal(t, shim.FailureNodeLost, exit.Failure)
	require.True(t, exit.Stopped)
}

func TestADeadlineMovesOnlyOn(t *testing.T) {
	t.Parallel()
	first := deadlineIn(12*time.Second, 13*time.Second)
	h, dir := start(t, leased(first, "sleep", "1000"))
	deadlineOf(t, h)
	pid := running(t, h)
	far := deadlineIn(time.Hour, 2*time.Hour)
	require.NoError(t, h.SetDeadline(far))
	require.NoError(t, h.SetDeadline(deadlineIn(time.Second, 2*time.Second)))
	// Another agent gets the current deadline.
	waitFor(t, "the later deadline", func() bool {
		again, err := Attach(dir, "")
		require.NoError(t, err)
		defer again.Close()
		return deadlineOf(t, again).StopAt == far.StopAt
	})
	waitFor(t, "the first deadline to pass", func() bool { return shim.Boottime() > first.DeadBy+int64(time.Second) })
	require.True(t, alive(pid), "it was stopped at a deadline that had been put off")
	require.NoError(t, h.Stop(shim.StopRequest{}))
	require.Empty(t, exited(t, h).Failure)
}

func TestAStopForTheDeadlineGoesOn(t *testing.T) {
	t.Parallel()
	h, dir := start(t, leased(deadlineIn(10*time.Second, 14*time.Second), "sh", "-c", `trap 'echo noticed' USR1; trap '' TERM; echo up; while :; do sleep 0.05; done`))
	waitFor(t, "the notice", func() bool { return logged(t, dir, "noticed") })
	require.NoError(t, h.SetDeadline(deadlineIn(time.Hour, 2*time.Hour)))
	exit := exited(t, h)
	require.Equal(t, 137, exit.Code)
	require.Equal(t, shim.FailureNodeLost, exit.Failure)
}

func TestATaskWhoseDeadlineIsPastIsNotStarted(t *testing.T) {
	t.Parallel()
	h, _ := start(t, leased(deadlineIn(-time.Second, time.Second), "sh", "-c", "exit 0"))
	deadlineOf(t, h)
	e := next(t, h)
	require.NotNil(t, e.Exit, "it ran")
	require.Equal(t, shim.FailureNodeLost, e.Exit.Failure)
	require.Equal(t, -1, e.Exit.Code)
	require.Zero(t, e.Exit.Pid)
}

func TestTheDeadlineHurriesAStopByOrder(t *testing.T) {
	t.Parallel()
	h, dir := start(t, leased(deadlineIn(12*time.Second, 14*time.Second), "sh", "-c", `trap '' USR1 TERM; echo up; while :; do sleep 0.05; done`))
	waitFor(t, "up", func() bool { return logged(t, dir, "up") })
	require.NoError(t, h.Stop(shim.StopRequest{Notice: time.Hour, Term: time.Hour}))
	exit := exited(t, h)
	require.Equal(t, 137, exit.Code)
	require.True(t, exit.Stopped)
}

func TestADeadlineMayComeLater(t *testing.T) {
	t.Parallel()
	h, _ := start(t, newSpec("sleep", "1000"))
	running(t, h)
	require.NoError(t, h.SetDeadline(deadlineIn(time.Second, 3*time.Second)))
	require.Equal(t, shim.FailureNodeLost, exited(t, h).Failure)
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
