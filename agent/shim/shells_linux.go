package shim

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/agent/shim/descent"
	"github.com/mindcoordinator/mind/agent/shim/program"
)

// shellGrace is the time from SIGHUP to SIGKILL for the processes of a shell whose connection has ended.
const shellGrace = 2 * time.Second

// shellEvent is a request for a shell or, without one, the end of the connection of a shell.
type shellEvent struct {
	conn    *os.File
	request *Shell
	fds     []int
}

// close closes the descriptors that came with the request.
func (e *shellEvent) close() {
	for _, fd := range e.fds {
		_ = syscall.Close(fd)
	}
}

// maxStarting limits the shells that wait to be started.
const maxStarting = 16

// shells are the shells of the task, by connection. The goroutine that waits for the task owns them.
type shells map[*os.File]*shell

type shell struct {
	pid   int
	ended bool
	// killAt is when what is left of a shell that was hung up is killed; zero: it was not hung up.
	killAt time.Time
}

// forker starts the shells of a task, on a goroutine of its own: a file system that hangs must not keep the shim from its deadlines
// and from the requests to stop.
type forker struct {
	wanted  chan shellEvent
	started chan startedShell
	// starting are the connections of the shells that were passed on. gone: the connection has ended meanwhile.
	starting map[*os.File]gone
	// ends are those of processes that may turn out to be such a shell.
	ends map[int]descent.End
	// start replaces startShell in tests; nil: that.
	start func(e shellEvent) (pid int, why string)
}

type gone bool

// startedShell is the answer to a request: the process, or why there is none.
type startedShell struct {
	conn *os.File
	pid  int
	why  string
}

// tookShell handles a request for a shell, and the end of the connection of one.
func (s *shim) tookShell(e shellEvent) {
	f := &s.forker
	if e.request == nil {
		if sh := s.shells[e.conn]; sh != nil {
			sh.hangUp(time.Now())
		} else if _, starting := f.starting[e.conn]; starting {
			f.starting[e.conn] = true
		}
		return
	}
	_, starting := f.starting[e.conn]
	why := ""
	switch {
	case s.exit.Ended != 0 || s.plan.asked:
		why = "the task is ending"
	case s.shells[e.conn] != nil || starting || len(e.fds) != e.request.descriptors():
		why = "the request of the agent is not understood"
	case len(f.starting) == maxStarting:
		why = "too many commands are being started in this task: the file system of the node may hang"
	}
	if why != "" {
		e.close()
		s.door.send(e.conn, []byte("refused "+strconv.Quote(why)+"\n"))
		return
	}
	if f.starting == nil {
		f.wanted, f.started = make(chan shellEvent, maxStarting), make(chan startedShell)
		f.starting, f.ends = map[*os.File]gone{}, map[int]descent.End{}
		go s.fork()
	}
	f.starting[e.conn] = false
	f.wanted <- e // it has room for all that are starting
}

// fork starts shells until the shim ends. The kernel kills a shell when the thread ends that has started it, so the thread stays.
func (s *shim) fork() {
	runtime.LockOSThread()
	start := s.forker.start
	if start == nil {
		start = s.startShell
	}
	for e := range s.forker.wanted {
		pid, why := start(e)
		e.close()
		select {
		case s.forker.started <- startedShell{e.conn, pid, why}:
		case <-s.door.over:
			if pid != 0 {
				_ = syscall.Kill(-pid, syscall.SIGKILL) // nobody waits for it any more
			}
		}
	}
}

// startShell starts a process as the command was started: with its environment, in its directory and its control group.
func (s *shim) startShell(e shellEvent) (pid int, why string) {
	cwd := s.cwd()
	env := append(append([]string(nil), s.spec.Env...), e.request.Env...)
	var path string
	if err := s.as(func() { path, why = program.Find(e.request.Argv[0], cwd, env, s.spec.Node) }); err != nil {
		return 0, "cannot become the user of the task: " + program.Cause(err)
	}
	if why != "" {
		return 0, why
	}
	attr := &syscall.ProcAttr{Dir: cwd, Env: env, Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}}
	for i := range 3 {
		attr.Files = append(attr.Files, uintptr(e.fds[min(i, len(e.fds)-1)]))
	}
	attr.Sys.Setctty = e.request.Terminal // of descriptor 0
	for _, fd := range e.fds {
		s.spec.User.GiveStream(fd)
	}
	s.group.Use(attr.Sys)
	// The protection of the shim is inherited, and not for a shell.
	unprotect()
	pid, err := s.forkExec(path, e.request.Argv, attr)
	protect()
	if err != nil {
		return 0, "cannot run " + path + " on node " + s.spec.Node + ": " + s.whyNot(err)
	}
	return pid, ""
}

// tookStart handles the answer of the forker. The process may have ended already, and so may its connection or the command.
func (s *shim) tookStart(st startedShell) {
	f := &s.forker
	left := f.starting[st.conn]
	delete(f.starting, st.conn)
	if st.pid == 0 {
		s.door.send(st.conn, []byte("refused "+strconv.Quote(st.why)+"\n"))
	} else {
		if s.shells == nil {
			s.shells = shells{}
		}
		sh := &shell{pid: st.pid}
		s.shells[st.conn] = sh
		s.door.send(st.conn, []byte(ShellWord+" "+strconv.Itoa(st.pid)+"\n"))
		if e, over := f.ends[st.pid]; over {
			s.endedShell(e)
		}
		if bool(left) || s.exit.Ended != 0 {
			sh.hangUp(time.Now())
		}
	}
	if len(f.starting) == 0 {
		clear(f.ends)
	}
}

// alive reports whether a shell has not ended.
func (all shells) alive() bool {
	for _, sh := range all {
		if !sh.ended {
			return true
		}
	}
	return false
}

// has reports whether a process is a shell that has not ended.
func (all shells) has(pid int) bool {
	for _, sh := range all {
		if sh.pid == pid && !sh.ended {
			return true
		}
	}
	return false
}

// endedShell tells the agent the end of a process that is a shell. It returns false for other processes.
func (s *shim) endedShell(e descent.End) bool {
	for conn, sh := range s.shells {
		if sh.pid != e.Pid || sh.ended {
			continue
		}
		code := e.Status.ExitStatus()
		if e.Status.Signaled() {
			code = 128 + int(e.Status.Signal())
		}
		s.door.send(conn, []byte("ended "+strconv.Itoa(code)+"\n"))
		sh.ended = true
		sh.hangUp(time.Now()) // what it has left in its session ends, too
		return true
	}
	return false
}

// hangUp ends a shell as a closed terminal does.
func (sh *shell) hangUp(now time.Time) {
	if sh.killAt.IsZero() {
		sh.killAt = now.Add(shellGrace)
		sh.signal(syscall.SIGHUP, syscall.SIGCONT)
	}
}

// hangUp ends all shells: the command has ended.
func (all shells) hangUp(now time.Time) {
	for _, sh := range all {
		sh.hangUp(now)
	}
}

// step kills what is left of shells that were hung up, and returns the time until that is due.
func (all shells) step(now time.Time) time.Duration {
	next := time.Hour
	for conn, sh := range all {
		switch {
		case sh.killAt.IsZero():
		case !now.Before(sh.killAt):
			sh.signal(syscall.SIGKILL)
			if sh.ended {
				delete(all, conn)
				continue
			}
			sh.killAt = now.Add(time.Second) // a process may have forked meanwhile
			next = min(next, time.Second)
		default:
			next = min(next, sh.killAt.Sub(now))
		}
	}
	return next
}

// signal sends signals to the processes of the shell: those in its session. Only descendants of the shim are looked at,
// because the number of a session may be used again when its processes are gone.
func (sh *shell) signal(signals ...syscall.Signal) {
	for _, pid := range descent.Of(os.Getpid()) {
		if descent.Session(pid) != sh.pid {
			continue
		}
		for _, signal := range signals {
			_ = syscall.Kill(pid, signal)
		}
	}
}

// receive reads from a connection, with the file descriptors that came with the data.
func receive(conn *os.File, buf []byte, fds []int) (n int, _ []int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fds, err
	}
	var room [64]byte
	got := 0
	waited := raw.Read(func(fd uintptr) bool {
		for {
			n, got, _, _, err = syscall.Recvmsg(int(fd), buf, room[:], syscall.MSG_CMSG_CLOEXEC)
			if err != syscall.EINTR {
				return err != syscall.EAGAIN
			}
		}
	})
	if waited != nil {
		return 0, fds, waited
	}
	if messages, parsed := syscall.ParseSocketControlMessage(room[:got]); parsed == nil {
		for i := range messages {
			if more, parsed := syscall.ParseUnixRights(&messages[i]); parsed == nil {
				fds = append(fds, more...)
			}
		}
	}
	if err == nil && n == 0 {
		err = errClosed
	}
	return n, fds, err
}

const errClosed = closedError("the agent has disconnected")

type closedError string

func (e closedError) Error() string { return string(e) }
