package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockPatience = 2 * time.Second
	lockPause    = 10 * time.Millisecond
)

// lockDir makes sure that one agent at a time uses a data directory.
func lockDir(dir string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, "agent.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	// An agent that was killed while it started a shim leaves a child process that holds the lock until it executes the
	// shim: wait for that.
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { _ = file.Close() }, nil
		}
		if time.Now().After(deadline) {
			_ = file.Close()
			return nil, fmt.Errorf("data directory %s is in use by another agent", dir)
		}
	}
}
