package store

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse says that another process is using the data.
var ErrInUse = errors.New("the data is in use")

// lockPause is the pause before another try to lock.
const lockPause = 50 * time.Millisecond

// Lock locks a directory for reading: no replica can use it before unlock is called. If a replica is using it, Lock
// waits up to within for its end.
func Lock(dir string, place Place, within time.Duration) (unlock func(), err error) {
	return lockShared(place.lock(dir), within)
}

func lockShared(path string, within time.Duration) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the log store: %w", err)
	}
	if err := retryLocked(within, func() error { return flock(f, unix.LOCK_SH) }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func flock(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%w: a coordinator runs on %s; stop it first", ErrInUse, f.Name())
	case err != nil:
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

func retryLocked(within time.Duration, try func() error) error {
	for giveUp := time.Now().Add(within); ; time.Sleep(lockPause) {
		if err := try(); !errors.Is(err, ErrInUse) || time.Now().After(giveUp) {
			return err
		}
	}
}
