package runner

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
)

func newSpare(t testing.TB, n int) (*Starter, string) {
	parent := t.TempDir()
	s := NewStarter(executable, parent, os.Stderr, n)
	waitFor(t, "spare shims", func() bool { return s.idle() == n })
	return s, parent
}

func TestASpareShimTakesATask(t *testing.T) {
	s, parent := newSpare(t, 2)
	defer s.Close()
	for i := range 5 { // more than the number of files
		dir := filepath.Join(parent, "task"+strconv.Itoa(i))
		h, err := s.Start(dir, newSpec("sh", "-c", "echo hello; exit 3"), nil)
		require.NoError(t, err)
		running(t, h)
		require.Equal(t, 3, exited(t, h).Code)
		require.Equal(t, "hello", logLines(t, dir)[0].Text)
		shimGone(t, dir)
	}
	waitFor(t, "refill", func() bool { return s.idle() == 2 })
}

func TestASpareShimThatTookATaskIsFoundAgain(t *testing.T) {
	s, parent := newSpare(t, 1)
	dir := filepath.Join(parent, "task")
	h, err := s.Start(dir, newSpec("sleep", "1000"), nil)
	require.NoError(t, err)
	pid := running(t, h)
	h.Close()
	s.Close()
	again, err := Attach(dir, "")
	require.NoError(t, err)
	require.Equal(t, pid, running(t, again))
	require.NoError(t, again.Stop(shim.StopRequest{Term: time.Hour}))
	require.Equal(t, 143, exited(t, again).Code)
	shimGone(t, dir)
}

func TestSpareShimsEndWithTheStarter(t *testing.T) {
	s, _ := newSpare(t, 3)
	var pids []int
	for _, w := range s.waiting {
		pids = append(pids, w.child.Pid)
	}
	s.Close()
	require.Len(t, pids, 3)
	for _, pid := range pids {
		require.False(t, alive(pid))
	}
}

func TestADeadSpareShimIsReplaced(t *testing.T) {
	s, parent := newSpare(t, 1)
	defer s.Close()
	w := s.waiting[0]
	require.NoError(t, syscall.Kill(w.child.Pid, syscall.SIGKILL))
	<-w.gone
	dir := filepath.Join(parent, "task")
	h, err := s.Start(dir, newSpec("sh", "-c", "exit 4"), nil)
	require.NoError(t, err)
	require.Equal(t, 4, exited(t, h).Code)
	shimGone(t, dir)
}
