// Package testrun cleans up after tests, even if they are killed: it ends their processes and removes their network
// namespaces, mounts, control groups and temporary files.
//
// Contract: the TestMain of a package whose tests start processes returns through Main, and so does the main function
// of a program that starts clusters to attack or to show them. Main gives the run its own directory for temporary
// files. This directory identifies the run: programs inherit it as TMPDIR, agents pass TMPDIR on to their tasks, and
// shims, which do not get their agent's environment, have a directory below it in their command line.
//
// How: a watcher, which is another process of this program, waits for a lock that the run holds. The kernel releases
// the lock when the run ends for any reason. Then the watcher kills every process of the run with all descendants, and
// removes everything that has the name of the run. If the watcher was killed as well, the next run on this machine
// finds the released lock, and does the same.
//
// Guarantees: only processes and files of ended runs are touched. Files that a run left in its directory when it
// returned from Main stay there, so that they can be examined. The directory of a run that was killed is removed.
//
// Not guaranteed: the end of a process if neither the process nor its parent has the environment of the run.
package testrun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// watchEnv makes this program the watcher of a run, whose directory is its value. It must not begin like the
	// variables that RunsFor and marked look for.
	watchEnv = "TESTRUN_WATCH"
	// watchLock is the file descriptor of the lock for a watcher.
	watchLock = 3
	// prefix is the prefix of the names of runs.
	prefix = "mind-run-"
	// lockName is the name of the lock file in the directory of a run.
	lockName = "lock"
)

// name is the name of the run of this process.
var name = "mind-" + strconv.Itoa(os.Getpid())

// Name returns the name of the run. Followed by a dash, it must be the prefix of all machine-wide names that the run
// makes, such as names of network namespaces.
func Name() string { return name }

// Main calls run, and returns its exit code when all processes that it started have ended.
func Main(run func() int) int {
	if dir := os.Getenv(watchEnv); dir != "" {
		return watch(dir)
	}
	r, err := begin()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		return 1
	}
	code := run()
	if err := r.end(); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		return max(1, code)
	}
	return code
}

// lease has the lock and the watcher of this process's run.
type lease struct {
	path    string // of the lock
	lock    *os.File
	watcher *exec.Cmd
}

func begin() (*lease, error) {
	base, err := filepath.EvalSymlinks(os.TempDir())
	if err == nil {
		base, err = filepath.Abs(base)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the directory for temporary files: %w", err)
	}
	if err := sweepDead(base); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err) // only reported: the error is not of this run
	}
	dir, err := os.MkdirTemp(base, prefix)
	if err != nil {
		return nil, fmt.Errorf("making the directory of this run: %w", err)
	}
	l, err := hold(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	name = filepath.Base(dir)
	return l, os.Setenv("TMPDIR", dir)
}

// hold locks the run's directory and starts the watcher.
func hold(dir string) (*lease, error) {
	path := filepath.Join(dir, lockName)
	lock, err := os.OpenFile(path+".new", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the directory of this run: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the directory of this run: %w", err), lock.Close())
	}
	// The file gets its name after it was locked.
	if err := os.Rename(path+".new", path); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	waits, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	defer waits.Close()
	w := exec.Command("/proc/self/exe")
	w.Args = []string{os.Args[0], "watches", dir}
	w.Env = append(os.Environ(), watchEnv+"="+dir)
	w.Dir = "/"
	w.Stderr = os.Stderr
	w.ExtraFiles = []*os.File{waits}
	// Signals to this process's session do not reach the watcher.
	w.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := w.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the watcher of this run: %w", err), lock.Close())
	}
	return &lease{path: path, lock: lock, watcher: w}, nil
}

// end tells the watcher that the run has ended normally, and waits for it.
func (l *lease) end() error {
	err := errors.Join(os.Remove(l.path), l.lock.Close())
	if waited := l.watcher.Wait(); waited != nil && !errors.Is(waited, syscall.ECHILD) { // a cluster in this process may have reaped it
		err = errors.Join(err, fmt.Errorf("the watcher of the run: %w", waited))
	}
	return err
}

// watch waits for the end of a run, and cleans up after it.
func watch(dir string) int {
	ignoreSignals()
	lock := os.NewFile(watchLock, lockName)
	ended, err := await(lock, 0)
	if err == nil {
		err = clearUp(dir, ended)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		return 1
	}
	return 0
}

// await takes the lock of a run that has ended. inOrder reports whether the lock file was removed: the run has ended
// normally, or another process has cleaned up.
func await(lock *os.File, how int) (inOrder bool, err error) {
	for {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("waiting for the end of a run: %w", err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(lock.Fd()), &stat); err != nil {
		return false, fmt.Errorf("waiting for the end of a run: %w", err)
	}
	return stat.Nlink == 0, nil
}

// sweepDead cleans up after the runs in base that were killed together with their watcher.
func sweepDead(base string) error {
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for runs that were killed: %w", err)
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.IsDir() || !strings.HasPrefix(e.Name(), prefix) || !own(info) {
			continue
		}
		errs = append(errs, sweepIfDead(filepath.Join(base, e.Name())))
	}
	return errors.Join(errs...)
}

func own(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

func sweepIfDead(dir string) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil // the run is starting, has ended normally, or is gone
	}
	defer lock.Close()
	cleared, err := await(lock, unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK) || cleared:
		return nil // the run continues, or another process is cleaning up or has done so
	case err != nil:
		return err
	}
	return clearUp(dir, false)
}
