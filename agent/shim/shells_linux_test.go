package shim

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim/descent"
)

// waiting is a shim with a command that runs.
func waiting(t *testing.T, script string) *shim {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { null.Close() })
	files := []uintptr{null.Fd(), null.Fd(), null.Fd()}
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Files: files, Sys: &syscall.SysProcAttr{Setsid: true}})
	require.NoError(t, err)
	return &shim{exit: Exit{Pid: pid, Code: -1}, door: &door{
		requests: make(chan StopRequest), deadlines: make(chan Deadline), shells: make(chan shellEvent), over: make(chan struct{}), conns: map[*os.File]struct{}{},
	}}
}

// ends runs wait beside the test.
func (s *shim) ends() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.wait()
		close(s.door.over)
	}()
	return done
}

// shellRequest is a request for a shell on a connection, of which the test has the other end.
func shellRequest(t *testing.T) (e shellEvent, agent *os.File) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	conn, agent := os.NewFile(uintptr(pair[0]), "shim"), os.NewFile(uintptr(pair[1]), "agent")
	t.Cleanup(func() { conn.Close(); agent.Close() })
	e = shellEvent{conn: conn, request: &Shell{Argv: []string{"sh"}}}
	for range 3 {
		fd, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		require.NoError(t, err)
		e.fds = append(e.fds, fd)
	}
	return e, agent
}

// hears reads what the shim says on a connection.
func hears(t *testing.T, agent *os.File) string {
	t.Helper()
	buf := make([]byte, 256)
	require.NoError(t, agent.SetReadDeadline(time.Now().Add(time.Minute)))
	n, err := agent.Read(buf)
	require.NoError(t, err)
	return string(buf[:n])
}

// A file system that hangs keeps a shell from being started, but not the shim from stopping the command.
func TestWait_stopsTheCommandWhileAShellIsBeingStarted(t *testing.T) {
	s := waiting(t, "exec sleep 1000")
	hang, hangs := make(chan struct{}), make(chan struct{})
	defer close(hang)
	s.forker.start = func(shellEvent) (int, string) {
		close(hangs)
		<-hang
		return 0, "it hung"
	}
	done := s.ends()
	e, _ := shellRequest(t)
	s.door.shells <- e
	<-hangs
	s.door.requests <- StopRequest{}
	<-done
	require.NotZero(t, s.exit.Signal)
}

// A shell whose start is told when the command and all its processes have ended ends with the task, and the task waits for it.
func TestWait_aShellThatStartsAsTheCommandEnds(t *testing.T) {
	s := waiting(t, "read x < /dev/null; exit 3")
	told := make(chan struct{})
	s.forker.start = func(shellEvent) (int, string) {
		<-told
		pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", `trap "" HUP TERM; sleep 1000 & wait`}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
		if err != nil {
			return 0, err.Error()
		}
		return pid, ""
	}
	e, agent := shellRequest(t)
	s.tookShell(e) // before the command has ended
	done := s.ends()
	require.Eventually(t, descent.NoChildren, time.Minute, time.Millisecond, "the reaper collects the command")
	close(told)
	require.Contains(t, hears(t, agent), ShellWord+" ")
	// The shell sets its trap for one signal after the other: SIGHUP or SIGTERM may come before.
	require.Contains(t, []string{"ended 129\n", "ended 143\n", "ended 137\n"}, hears(t, agent))
	<-done
	require.Equal(t, 3, s.exit.Code)
	require.True(t, descent.NoChildren())
}
