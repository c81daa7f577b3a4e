package runner

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/shim"
)

const (
	// refillPause is the time without a launch after which idle shims are started for later launches: a burst of
	// launches needs the processors itself.
	refillPause = 10 * time.Millisecond
	// restPause is the time without a launch or an end after which surplus shims are dismissed.
	restPause = 2 * time.Second
	// mostResting limits the surplus shims.
	mostResting = 32
)

// shimEnv is added to the environment of shims: a shim needs only one thread and a small heap, and the runtime starts
// in three quarters of the time if it does not search its control groups for a CPU quota.
var shimEnv = []string{"GOMAXPROCS=1", "GOMEMLIMIT=32MiB", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}

// Starter starts shims. It keeps a few idle shims, so that a launch on an idle node need not wait for the start of a
// process; and it reuses shims whose task has ended, so that a launch on a busy node need not either.
type Starter struct {
	executable string
	parent     string
	stderr     *os.File
	spare      int

	changed chan struct{}
	closed  chan struct{}
	done    sync.WaitGroup

	mu      sync.Mutex
	waiting []*waiter
	// ending are the shims whose task has ended and that may become idle again.
	ending map[*waiter]struct{}
	shut   bool
}

// NewStarter returns a starter that runs "EXECUTABLE shim --dir PARENT --wait" for task directories in parent, and
// keeps spare idle shims; with none, each task gets a new process. stderr gets the output of the shims themselves; nil:
// it is discarded. It must not be a pipe whose reader may end before the shims.
func NewStarter(executable, parent string, stderr *os.File, spare int) *Starter {
	s := &Starter{
		executable: executable, parent: parent, stderr: stderr, spare: spare,
		changed: make(chan struct{}, 1), closed: make(chan struct{}), ending: make(map[*waiter]struct{}),
	}
	if spare > 0 {
		s.done.Go(s.tend)
	}
	return s
}

// Close ends idle shims and waits for them. Shims with a task continue.
func (s *Starter) Close() {
	close(s.closed)
	s.mu.Lock()
	s.shut = true
	waiting := s.waiting
	s.waiting = nil
	for w := range s.ending {
		_ = w.conn.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
	for _, w := range waiting {
		w.dismiss()
	}
}

// tend starts and dismisses idle shims to keep their number.
func (s *Starter) tend() {
	for failed := false; ; {
		var pause <-chan time.Time
		switch n := s.idle(); {
		case n < s.spare && !failed:
			pause = time.After(refillPause)
		case n > s.spare:
			pause = time.After(restPause)
		}
		select {
		case <-s.closed:
			return
		case <-s.changed:
			failed = false
		case <-pause:
			for s.idle() < s.spare && !failed {
				w, err := s.fork(s.parent)
				failed = err != nil || !s.put(w, s.spare) // the next launch reports the error
			}
			for w := s.surplus(); w != nil; w = s.surplus() {
				w.dismiss()
			}
		}
	}
}

func (s *Starter) idle() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// put adds an idle shim, unless there are most already.
func (s *Starter) put(w *waiter, most int) bool {
	s.mu.Lock()
	kept := !s.shut && w.parent == s.parent && len(s.waiting) < most
	if kept {
		s.waiting = append(s.waiting, w)
	}
	s.mu.Unlock()
	if !kept {
		w.dismiss()
	}
	return kept
}

// take takes the newest idle shim: most of its memory is still in the processor's caches.
func (s *Starter) take() *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return nil
	}
	w := s.waiting[len(s.waiting)-1]
	s.waiting = s.waiting[:len(s.waiting)-1]
	return w
}

// surplus takes the oldest idle shim, if there are more than spare.
func (s *Starter) surplus() *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) <= s.spare {
		return nil
	}
	w := s.waiting[0]
	s.waiting = slices.Delete(s.waiting, 0, 1)
	return w
}

func (s *Starter) change() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Start writes the specification into a new directory and makes a shim run it; prepare, if set, adds the files that the
// task needs.
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
		for w := s.take(); w != nil; w = s.take() {
			s.change()
			if h, err := s.give(w, dir, spec); err == nil {
				return h, nil
			}
		}
	}
	w, err := s.fork(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	return s.give(w, dir, spec)
}

// give hands a task to an idle shim. After an error, the shim has not received the task, for example because it had
// died.
func (s *Starter) give(w *waiter, dir string, spec shim.Spec) (*Handle, error) {
	if w.name == "" {
		// The shim has closed the socket of its former task.
		w.name = socketName()
	}
	spec.Socket = w.name
	err := writeSpec(dir, spec)
	if err == nil {
		_ = w.conn.SetWriteDeadline(time.Now().Add(writePatience))
		if _, err = fmt.Fprintf(w.conn, "task %s\n", filepath.Base(dir)); err != nil {
			err = fmt.Errorf("start shim: %w", err)
		}
	}
	if err != nil {
		w.dismiss()
		return nil, err
	}
	w.name = ""
	return follow(dir, spec.Cgroup, w.conn, func(said *bufio.Scanner) { s.ended(w, said) }), nil
}

// ended waits until a shim whose task has ended is ready for another.
func (s *Starter) ended(w *waiter, said *bufio.Scanner) {
	s.mu.Lock()
	shut := s.shut || s.spare == 0 || w.parent != s.parent
	if !shut {
		s.ending[w] = struct{}{}
		s.done.Add(1)
	}
	s.mu.Unlock()
	if shut {
		_ = w.conn.Close()
		return
	}
	go func() {
		defer s.done.Done()
		ready := ready(said)
		s.mu.Lock()
		delete(s.ending, w)
		s.mu.Unlock()
		if !ready {
			_ = w.conn.Close()
			return
		}
		s.put(w, s.spare+mostResting)
		s.change()
	}()
}

// writeSpec writes a specification without a sync: a machine that loses power loses the task as well.
func writeSpec(dir string, spec shim.Spec) error {
	if err := os.WriteFile(filepath.Join(dir, shim.SpecFile), spec.Encode(), 0o600); err != nil {
		return fmt.Errorf("write task: %w", err)
	}
	return nil
}

// fork starts an idle shim for task directories in parent.
func (s *Starter) fork(parent string) (*waiter, error) {
	name := socketName()
	listener, conn, err := socket(name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(listener)
	child, err := s.exec(listener, shim.DirFlag, parent, shim.WaitFlag)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	w := &waiter{name: name, parent: parent, conn: conn, child: child, gone: make(chan struct{})}
	// Only this goroutine waits for the process, which may outlive its tasks while the disk is slow.
	go func() {
		defer close(w.gone)
		w.end, _ = child.Wait()
	}()
	return w, nil
}

// Probe starts a shim and ends it. The error says why no shim can be started.
func (s *Starter) Probe() error {
	w, err := s.fork(s.parent)
	if err != nil {
		return err
	}
	w.dismiss()
	if w.end == nil || !w.end.Success() {
		return fmt.Errorf("start shim: it ended with %v", w.end)
	}
	return nil
}

func (s *Starter) exec(listener int, args ...string) (*os.Process, error) {
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
