package proc

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Kill sends SIGKILL to the process, and never to a later process with the same id. It is no error if the process has
// ended.
func (p Process) Kill() error {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if err == nil {
		defer unix.Close(fd)
		// The id may have been reused before the process was opened, but not after that.
		if !p.Runs() {
			return nil
		}
		err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", p.Pid, err)
	}
	return nil
}

// Ends waits for the end of the process, and reports whether it ended in time.
func (p Process) Ends(within time.Duration) bool {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if err != nil {
		return !p.Runs()
	}
	defer unix.Close(fd)
	giveUp := time.Now().Add(within)
	for p.Runs() {
		left := time.Until(giveUp)
		if left <= 0 {
			return false
		}
		// An interrupted wait continues.
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
	}
	return true
}
