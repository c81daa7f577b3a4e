package tunnels

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// shell is a process beside that of the task, as the end of a tunnel.
type shell struct {
	process *runner.Shell
	// in and outs are the ends of the agent: the terminal, or pipes.
	in       *os.File
	outs     []*os.File
	terminal bool
	once     sync.Once
}

// startShell starts a process in the task of a directory.
func startShell(dir string, wanted *v1.TunnelShell) (*shell, error) {
	request := shim.Shell{Argv: wanted.GetCommand(), Terminal: wanted.GetTerminal()}
	if wanted.GetTerm() != "" {
		request.Env = append(request.Env, "TERM="+wanted.GetTerm())
	}
	s := &shell{terminal: wanted.GetTerminal()}
	var theirs []*os.File
	defer func() {
		for _, file := range theirs {
			_ = file.Close()
		}
	}()
	if s.terminal {
		master, slave, err := openTerminal(wanted.GetSize())
		if err != nil {
			return nil, err
		}
		s.in, s.outs, theirs = master, []*os.File{master}, []*os.File{slave}
	} else {
		ours, others, err := pipes()
		if err != nil {
			return nil, err
		}
		s.in, s.outs, theirs = ours[0], ours[1:], others
	}
	var err error
	if s.process, err = runner.StartShell(dir, request, theirs...); err != nil {
		s.closeFiles()
		return nil, err
	}
	return s, nil
}

// pipes makes pipes for stdin, stdout and stderr. Only the ends of the agent do not block.
func pipes() (ours, theirs []*os.File, err error) {
	for i := range 3 {
		var fds [2]int
		err := unix.Pipe2(fds[:], unix.O_CLOEXEC)
		mine := 0
		if i == 0 {
			mine = 1
		}
		if err == nil {
			if err = unix.SetNonblock(fds[mine], true); err != nil {
				_ = unix.Close(fds[0])
				_ = unix.Close(fds[1])
			}
		}
		if err != nil {
			for _, file := range append(ours, theirs...) {
				_ = file.Close()
			}
			return nil, nil, fmt.Errorf("make pipes: %w", err)
		}
		ours = append(ours, os.NewFile(uintptr(fds[mine]), "pipe"))
		theirs = append(theirs, os.NewFile(uintptr(fds[1-mine]), "pipe of the process"))
	}
	return ours, theirs, nil
}

func (s *shell) In() io.Writer { return s.in }

// CloseIn ends the input. In a terminal, users type its end.
func (s *shell) CloseIn() error {
	if s.terminal {
		return nil
	}
	return s.in.Close()
}

func (s *shell) Outs() []out {
	var all []out
	for _, file := range s.outs {
		all = append(all, file)
	}
	return all
}

func (s *shell) Resize(size *v1.TunnelSize) error {
	if !s.terminal {
		return errors.New("it has no terminal")
	}
	return resize(s.in, size)
}

func (s *shell) Wait() *v1.TunnelEnd {
	code, known := s.process.Wait()
	if !known {
		return &v1.TunnelEnd{ExitCode: -1, Message: "the task has ended, and the shell with it"}
	}
	return &v1.TunnelEnd{ExitCode: int32(code)}
}

// Close ends the process. The terminal is closed first, which tells its foreground.
func (s *shell) Close() {
	s.once.Do(func() {
		s.closeFiles()
		s.process.Close()
	})
}

func (s *shell) closeFiles() {
	_ = s.in.Close()
	for _, file := range s.outs {
		_ = file.Close()
	}
}
