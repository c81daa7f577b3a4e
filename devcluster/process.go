package devcluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

var ownPid = os.Getpid()

// starter starts children from one thread that lives as long as the starter. Linux delivers the death signal of a child
// when the thread that started it ends, and not when that thread's process ends; Go ends threads at any time unless
// they are locked.
type starter struct {
	orders chan func()
	gone   chan struct{}
}

func newStarter() *starter {
	s := &starter{orders: make(chan func()), gone: make(chan struct{})}
	go func() {
		defer close(s.gone)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for order := range s.orders {
			order()
		}
	}()
	return s
}

// close must not be called before all children have ended.
func (s *starter) close() {
	close(s.orders)
	<-s.gone
}

// child is a component that runs as a process.
type child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// start runs argv with its output appended to DIR/logs/NAME.log. The child has its own process group, so that an
// interrupt from the keyboard reaches only the supervisor, which then stops all components in an orderly way; and the
// kernel terminates the child when the supervisor dies for any reason.
func (s *starter) start(argv []string, dir, name string) (running, error) {
	log, err := os.OpenFile(logFile(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening its log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = environment(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	result := make(chan error)
	s.orders <- func() { result <- cmd.Start() }
	if err := <-result; err != nil {
		return nil, err
	}
	life := &child{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(life.done)
		life.err = cmd.Wait()
	}()
	return life, nil
}

func (l *child) Pid() int              { return l.cmd.Process.Pid }
func (l *child) Terminate()            { _ = l.cmd.Process.Signal(syscall.SIGTERM) }
func (l *child) Kill()                 { _ = l.cmd.Process.Kill() }
func (l *child) Done() <-chan struct{} { return l.done }
func (l *child) Err() error            { return l.err }

// environment drops MIND_* variables: they are meant for another program, and would override the configuration files.
func environment(all []string) []string {
	var kept []string
	for _, v := range all {
		if !strings.HasPrefix(v, "MIND_") {
			kept = append(kept, v)
		}
	}
	return kept
}

func logFile(dir, name string) string { return filepath.Join(dir, "logs", name+".log") }

// endOfLog returns the last lines of a component's log.
func endOfLog(dir, name string) string {
	const bytes, lines = 4096, 12
	f, err := os.Open(logFile(dir, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	end, err := f.Seek(0, 2)
	if err != nil {
		return ""
	}
	text := make([]byte, min(end, bytes))
	if _, err := f.ReadAt(text, end-int64(len(text))); err != nil && !errors.Is(err, os.ErrClosed) {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
