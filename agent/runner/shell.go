package runner

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/shim"
)

// shellPatience is how long a shim may take to start a shell. It is for file systems that hang, not for busy machines.
const shellPatience = 30 * time.Second

// ErrShell is wrapped by the reason why a shim does not start a shell: the caller asked for something that is not possible.
var ErrShell = errors.New("the shell was not started")

// Shell is a process that a shim has started beside the command of its task.
type Shell struct {
	Pid  int
	conn *os.File
	said *bufio.Scanner
}

// StartShell makes the shim of the task in a directory start a shell with these descriptors: a terminal, or stdin, stdout
// and stderr. The caller closes its descriptors.
func StartShell(dir string, request shim.Shell, descriptors ...*os.File) (*Shell, error) {
	text := request.Encode()
	if len(text) > shim.MaxShell {
		return nil, fmt.Errorf("%w: its command has more than %d bytes", ErrShell, shim.MaxShell)
	}
	spec, err := shim.ReadSpec(dir)
	if err != nil {
		return nil, fmt.Errorf("read the record of the task: %w", err)
	}
	conn, err := dial(spec.Socket)
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: the task has ended", ErrShell)
	}
	if err != nil {
		return nil, err
	}
	s := &Shell{conn: conn, said: bufio.NewScanner(conn)}
	if err := s.start(text, descriptors); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *Shell) start(text []byte, descriptors []*os.File) error {
	_ = s.conn.SetDeadline(time.Now().Add(shellPatience))
	n, err := sendWith(s.conn, text, descriptors)
	if err == nil {
		_, err = s.conn.Write(text[n:])
	}
	if err != nil {
		return fmt.Errorf("ask the shim for a shell: %w", err)
	}
	for s.said.Scan() {
		word, rest, _ := strings.Cut(s.said.Text(), " ")
		switch word {
		case shim.ShellWord:
			s.Pid, _ = strconv.Atoi(rest)
			_ = s.conn.SetDeadline(time.Time{})
			return nil
		case "refused":
			why, _ := strconv.Unquote(rest)
			return fmt.Errorf("%w: %s", ErrShell, why)
		}
	}
	if errors.Is(s.said.Err(), os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: the shim of the task does not answer; it may be of an earlier version of mind", ErrShell)
	}
	return fmt.Errorf("%w: the task has ended", ErrShell)
}

// sendWith sends the beginning of data with descriptors, and returns how much was sent.
func sendWith(conn *os.File, data []byte, descriptors []*os.File) (n int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var fds []int
	for _, file := range descriptors {
		control, err := file.SyscallConn()
		if err != nil {
			return 0, err
		}
		// The caller keeps the file open, so the number stays valid.
		if err := control.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return 0, err
		}
	}
	waited := raw.Write(func(fd uintptr) bool {
		n, err = unix.SendmsgN(int(fd), data, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	return n, errors.Join(waited, err)
}

// Wait returns the exit code of the shell. known is false if its shim has ended before that was known.
func (s *Shell) Wait() (code int, known bool) {
	for s.said.Scan() {
		if rest, ok := strings.CutPrefix(s.said.Text(), "ended "); ok {
			code, err := strconv.Atoi(rest)
			return code, err == nil
		}
	}
	return -1, false
}

// Close ends the shell if it has not ended: with SIGHUP, and then with SIGKILL.
func (s *Shell) Close() { _ = s.conn.Close() }
