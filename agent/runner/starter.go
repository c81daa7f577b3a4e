package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/shim"
)

// refillPause is how long there must have been no launch before shims are
// started for the next ones: a burst needs the processors itself.
const refillPause = 10 * time.Millisecond

// shimEnv: one thread at a time and a small heap are all that a shim needs, and
// a runtime that does not look through its control groups for a CPU quota
// starts in three quarters of the time.
var shimEnv = []string{"GOMAXPROCS=1", "GOMEMLIMIT=32MiB", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}

// Starter starts shims. It keeps a few that wait for a task, so that the start
// of a process is not part of a launch on a node that is not in a hurry.
type Starter struct {
	executable string
	parent     string
	stderr     *os.File

	waiting chan *waiter
	taken   chan struct{}
	closed  chan struct{}
	done    sync.WaitGroup
}

// waiter is a shim without a task.
type waiter struct {
	name  string
	conn  *os.File
	child *os.Process
}

// NewStarter returns a starter that runs "EXECUTABLE shim --dir DIR" for task
// directories in parent, and keeps up to spare shims waiting. stderr takes what
// shims themselves have to say; it must not be a pipe whose reader may go
// before them; nil: nowhere.
func NewStarter(executable, parent string, stderr *os.File, spare int) *Starter {
	s := &Starter{
		executable: executable, parent: parent, stderr: stderr,
		waiting: make(chan *waiter, spare), taken: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	if spare > 0 {
		s.done.Go(s.refill)
	}
	return s
}

// Close ends the shims that wait for a task, and waits for their end. Those
// that have one go on.
func (s *Starter) Close() {
	close(s.closed)
	s.done.Wait()
	for {
		select {
		case w := <-s.waiting:
			w.dismiss()
		default:
			return
		}
	}
}

func (w *waiter) dismiss() {
	_ = w.conn.Close()
	_, _ = w.child.Wait()
}

// refill keeps the shims that wait at their number.
func (s *Starter) refill() {
	for {
		// Nobody else adds, so what is not full stays so.
		for len(s.waiting) < cap(s.waiting) {
			w, err := s.spare()
			if err != nil {
				break // the next launch says why
			}
			s.waiting <- w
		}
		select {
		case <-s.taken:
		case <-s.closed:
			return
		}
		for quiet := false; !quiet; {
			select {
			case <-s.taken:
			case <-time.After(refillPause):
				quiet = true
			case <-s.closed:
				return
			}
		}
	}
}

// spare starts a shim that waits.
func (s *Starter) spare() (*waiter, error) {
	name := socketName()
	listener, conn, err := socket(name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(listener)
	child, err := s.fork(listener, shim.DirFlag, s.parent, shim.WaitFlag)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &waiter{name: name, conn: conn, child: child}, nil
}

// Start writes the specification into a new directory and has a shim run it;
// prepare, when it is not nil, adds to the directory what the task needs.
func (s *Starter) Start(dir string, spec shim.Spec, prepare func(dir string) error) (*Handle, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make task directory: %w", err)
	}
	if prepare != nil {
		if err := prepare(dir); err != nil {
			return nil, err
		}
	}
	if filepath.Dir(dir) == s.parent {
		select {
		case w := <-s.waiting:
			select {
			case s.taken <- struct{}{}:
			default:
			}
			if h := w.give(dir, spec); h != nil {
				return h, nil
			}
		default:
		}
	}
	return s.startNew(dir, spec)
}

// give hands a task to a shim that waits; nil when that has died meanwhile.
func (w *waiter) give(dir string, spec shim.Spec) *Handle {
	spec.Socket = w.name
	if err := writeSpec(dir, spec); err == nil {
		if _, err := fmt.Fprintf(w.conn, "task %s\n", filepath.Base(dir)); err == nil {
			return follow(dir, w.conn, w.child)
		}
	}
	w.dismiss()
	return nil
}

func (s *Starter) startNew(dir string, spec shim.Spec) (*Handle, error) {
	spec.Socket = socketName()
	if err := writeSpec(dir, spec); err != nil {
		return nil, err
	}
	listener, conn, err := socket(spec.Socket)
	if err != nil {
		return nil, err
	}
	defer unix.Close(listener)
	child, err := s.fork(listener, shim.DirFlag, dir)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return follow(dir, conn, child), nil
}

// writeSpec does not sync: a machine that loses power loses the task with it.
func writeSpec(dir string, spec shim.Spec) error {
	if err := os.WriteFile(filepath.Join(dir, shim.SpecFile), spec.Encode(), 0o600); err != nil {
		return fmt.Errorf("write task: %w", err)
	}
	return nil
}

func (s *Starter) fork(listener int, args ...string) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("start shim: %w", err)
	}
	defer null.Close()
	stderr := null
	if s.stderr != nil {
		stderr = s.stderr
	}
	pid, err := syscall.ForkExec(s.executable, append([]string{"mind", shim.Command}, args...), &syscall.ProcAttr{
		Env:   shimEnv,
		Files: []uintptr{null.Fd(), null.Fd(), stderr.Fd(), uintptr(listener)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start shim: %w", err)
	}
	return os.FindProcess(pid)
}
