// Package runner starts shims and talks to them: the agent's side of package shim.
//
// Contract: a task directory belongs to one task. Start makes a shim run its command; Attach finds the shim that an earlier
// agent started. Either returns a Handle, which reports once that the command runs and once that the task has ended.
//
// Guarantees: a command is started at most once for a directory, also when agents die at any moment (see package shim). If
// a shim died without recording an exit, its Handle reports the end only after the processes that the task left were
// killed.
package runner

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/agent/tasklog"
)

// ErrNotBegun is returned by Attach for a task whose command was certainly never started. Attach has made its directory
// unusable, so that a shim that is just starting cannot start the command any more. Remove the directory and start
// again.
var ErrNotBegun = errors.New("the task was never begun")

// Event is a message from a shim.
type Event struct {
	// Deadline is the task's deadline in the shim when the Handle was made.
	Deadline *shim.Deadline
	// Running: the command was started, as process Pid, at Time (Unix nanoseconds).
	Running bool
	Pid     int
	Time    int64
	// Exit is set when the task has ended and no process of it is left.
	Exit *shim.Exit
}

// Handle is the agent's handle of one shim.
type Handle struct {
	dir string
	// group is the control group of the task; empty: it has none. The record of a task is no evidence for it: a job may have
	// written there.
	group string
	// command is the first process of the task, as far as the shim has said it.
	command process
	events  chan Event
	closed  chan struct{}
	once    sync.Once

	mu   sync.Mutex
	conn *os.File
	// ended is called with the reader of the connection when the task has ended; nil: the connection is closed then.
	ended func(said *bufio.Scanner)
}

// Events carries at most one deadline event and one running event, and then an exit event, after which it is closed. Close
// closes it early, without an exit event.
func (h *Handle) Events() <-chan Event { return h.events }

// Stop tells the shim to stop the task. It may be called again: later requests can only make the end come sooner.
func (h *Handle) Stop(request shim.StopRequest) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn == nil {
		return nil // the task is ending anyway
	}
	_ = h.conn.SetWriteDeadline(time.Now().Add(writePatience))
	_, err := fmt.Fprintf(h.conn, "stop %d %d\n", request.Notice.Milliseconds(), request.Term.Milliseconds())
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("tell the shim to stop: %w", err)
	}
	return nil
}

// writePatience limits how long a write to a shim may take.
const writePatience = 5 * time.Second

// deadlinePatience limits how long writing a deadline may take: a later one will follow.
const deadlinePatience = 50 * time.Millisecond

// SetDeadline tells the shim the task's deadline. The shim uses the latest deadline that it was told, unless it has already
// begun to stop the task.
func (h *Handle) SetDeadline(deadline shim.Deadline) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn == nil {
		return nil
	}
	_ = h.conn.SetWriteDeadline(time.Now().Add(deadlinePatience))
	if _, err := h.conn.WriteString(deadline.Line()); err != nil && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("tell the shim its deadline: %w", err)
	}
	return nil
}

// maxRemark limits a remark: a shim does not read longer lines.
const maxRemark = 800

// Remark writes a remark into the task's log, unless that is closed.
func (h *Handle) Remark(text string) error {
	text = strings.ToValidUTF8(strings.ReplaceAll(text[:min(len(text), maxRemark)], "\n", " "), "")
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn == nil {
		return nil
	}
	_ = h.conn.SetWriteDeadline(time.Now().Add(deadlinePatience))
	if _, err := fmt.Fprintf(h.conn, "remark %s\n", text); err != nil && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("tell the shim a remark: %w", err)
	}
	return nil
}

// Close detaches from the shim, which continues. It returns at once.
func (h *Handle) Close() {
	h.once.Do(func() { close(h.closed) })
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn != nil {
		_ = h.conn.Close()
		h.conn = nil
	}
}

// Attach takes over a task that an earlier agent left, and that has a control group, unless that is empty. The error is a
// shim.VersionError if a newer agent launched it.
func Attach(dir, group string) (*Handle, error) {
	for deadline := time.Now().Add(10 * time.Second); ; {
		spec, err := shim.ReadSpec(dir)
		if err == nil {
			var conn *os.File
			if conn, err = dial(spec.Socket); err == nil {
				return follow(dir, group, conn, nil), nil
			}
		}
		if newer := (shim.VersionError{}); errors.As(err, &newer) {
			// Nothing in the record can be trusted, not even that the command was never begun.
			return nil, err
		}
		// No shim listens: it is gone, or not ready yet.
		free, release, lockErr := lock(dir)
		if lockErr != nil {
			return nil, lockErr
		}
		if free {
			defer release()
			return attachDead(dir, group, spec.Begun)
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the shim in %s does not answer: %w", dir, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// attachDead handles a directory without a shim. The caller holds its lock.
func attachDead(dir, group string, begun bool) (*Handle, error) {
	if !begun {
		// The shim may have recorded that the command was begun while the caller waited for the lock.
		spec, _ := shim.ReadSpec(dir)
		begun = spec.Begun || left(dir)
	}
	if _, err := ReadExit(dir); err == nil || begun {
		return follow(dir, group, nil, nil), nil
	}
	if err := os.Remove(filepath.Join(dir, shim.SpecFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("withdraw task: %w", err)
	}
	if group != "" {
		confine.RemoveGroup(group) // the agent makes it before the shim has the task
	}
	return nil, ErrNotBegun
}

// lock tries to take the lock that a shim holds for its whole life.
func lock(dir string) (free bool, release func(), err error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, nil, fmt.Errorf("open task directory: %w", err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil, nil
		}
		return false, nil, fmt.Errorf("lock task directory: %w", err)
	}
	return true, func() { _ = unix.Close(fd) }, nil
}

// left reports whether a command may have left files in its directory. After a power cut the record that the command was
// begun may be missing; the directory must not be treated as if it never had been begun. Where the shim makes the metrics and
// events files, that is before the command begins: an attempt that ends in between is not begun again either.
func left(dir string) bool {
	if there, _, err := tasklog.End(filepath.Join(dir, shim.LogDir)); err != nil || there > 0 {
		return true
	}
	for _, name := range []string{shim.ExitFile, shim.MetricsFile, shim.EventsFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			return true
		}
	}
	return false
}

// maxExit limits an exit: some fields, and a line of stderr.
const maxExit = 1 << 20

// ReadExit reads how the task in a directory ended. The error wraps os.ErrNotExist if it has not ended, or if a power cut
// has left nothing to read.
func ReadExit(dir string) (shim.Exit, error) {
	var exit shim.Exit
	data, err := taskfile.Read(dir, shim.ExitFile, maxExit)
	if err != nil {
		return exit, err
	}
	if err := json.Unmarshal(data, &exit); err != nil {
		return shim.Exit{}, fmt.Errorf("%s is incomplete: %w", shim.ExitFile, os.ErrNotExist)
	}
	return exit, nil
}

func follow(dir, group string, conn *os.File, ended func(*bufio.Scanner)) *Handle {
	h := &Handle{dir: dir, group: group, events: make(chan Event, 3), closed: make(chan struct{}), conn: conn, ended: ended}
	go h.run(conn)
	return h
}

// release closes the connection: a shim whose task has ended needs no messages.
func (h *Handle) release(said *bufio.Scanner) {
	if h.ended == nil {
		h.Close()
		return
	}
	h.mu.Lock()
	mine := h.conn != nil
	h.conn = nil
	h.mu.Unlock()
	if mine {
		h.ended(said)
	}
}

// empty returns when no process is left in the control group, whatever said that the task has ended.
func (h *Handle) empty() {
	if h.group != "" && !confine.GroupEmpty(h.group) {
		killGroup(h.group)
	}
}

func (h *Handle) run(conn *os.File) {
	defer close(h.events)
	if conn != nil && h.listen(conn) {
		return
	}
	select {
	case <-h.closed:
		return
	default:
	}
	exit, err := ReadExit(h.dir)
	if err != nil {
		exit = h.abandoned(err)
	}
	h.empty()
	h.events <- Event{Exit: &exit}
}

// listen passes on the messages of the shim. It returns true when it has passed on the exit.
func (h *Handle) listen(conn *os.File) bool {
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 0, 512), 1<<20)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "deadline":
			if deadline, ok := shim.ParseDeadline(lines.Text()); ok {
				h.events <- Event{Deadline: &deadline}
			}
		case "started":
			pid, at, _ := strings.Cut(rest, " ")
			event := Event{Running: true}
			event.Pid, _ = strconv.Atoi(pid)
			h.command = processOf(event.Pid)
			event.Time, _ = strconv.ParseInt(at, 10, 64)
			h.events <- event
		case "exited":
			var exit shim.Exit
			if json.Unmarshal([]byte(rest), &exit) == nil {
				h.empty()
				h.events <- Event{Exit: &exit}
				h.release(lines)
				return true
			}
		}
	}
	return false
}

// abandoned makes an exit for a task whose shim died without recording one: the task was killed, or never began.
func (h *Handle) abandoned(cause error) shim.Exit {
	for free := false; !free; {
		var release func()
		var err error
		if free, release, err = lock(h.dir); err != nil {
			break
		}
		if free {
			defer release()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	exit := shim.Exit{Code: -1, Ended: time.Now().UnixNano(), Failure: shim.FailureInternal}
	exit.Message = "the shim of the task was killed, or the machine lost power; the exit code of the task is unknown"
	if !errors.Is(cause, os.ErrNotExist) {
		exit.Message += " (" + cause.Error() + ")"
	}
	spec, err := shim.ReadSpec(h.dir)
	switch {
	case err == nil && !spec.Begun && !left(h.dir):
		exit.Failure = shim.FailureLaunch
		exit.Message = "the shim of the task was killed before it started the command"
	case err == nil:
		exit.Killed = KillLeftovers(spec, h.group, h.command)
	}
	if err := shim.WriteExit(h.dir, exit); err != nil {
		exit.Message += "; it could not be recorded: " + err.Error()
	}
	return exit
}

// Gone reports whether no shim runs in the directory.
func Gone(dir string) bool {
	free, release, err := lock(dir)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	if free {
		release()
	}
	return free
}
