// Package testrun ends what tests have started, also when they are killed: processes, network namespaces, mounts, control
// groups and temporary files.
//
// Contract: the TestMain of a package whose tests start processes returns through Main, and so does the main of a program
// that starts clusters to attack or to show them. Main gives the run a directory of its own for temporary files. By this
// directory the run is known: programs inherit it as TMPDIR, agents pass TMPDIR on to their tasks, and shims, which get
// nothing of their agent's environment, name a directory below it in their command line.
//
// How: a watcher, this program once more, waits for a lock that the run holds. The kernel gives it up when the run ends,
// however it ends. Then the watcher kills every process of the run with all descendants, and removes what bears the name of
// the run. Should the watcher be killed as well, the next run on this machine finds a lock that nobody holds, and does the
// same.
//
// Guarantees: nothing is touched that does not bear the name of the run, nor anything of a run that goes on. What a run that
// returned from Main has left in its directory stays there: it was kept for somebody to look at. The directory of a run
// that was killed is removed.
//
// Not guaranteed: the end of a process that has neither the environment of the run nor a parent that has it.
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
	// watchEnv tells this program to be the watcher of a run, whose directory is its value. It must not begin as what RunsFor
	// and marked look for.
	watchEnv = "TESTRUN_WATCH"
	// watchLock is the file descriptor by which a watcher waits.
	watchLock = 3
	// prefix begins the names of runs.
	prefix = "mind-run-"
	// lockName is the file in the directory of a run that the run holds a lock on.
	lockName = "lock"
)

// name is the name of this process's run.
var name = "mind-" + strconv.Itoa(os.Getpid())

// Name begins the name of whatever the run makes that has a name on the whole machine, such as a network namespace, followed
// by a dash.
func Name() string { return name }

// Main does what run does, and returns its exit code when nothing is left of what it has started.
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

// lease is what this process holds while its run goes on.
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
		fmt.Fprintln(os.Stderr, "testrun:", err) // which is no fault of this run
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
	// Nobody sees the file before it is locked.
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
	// What is sent to this process and to all that belongs to it does not reach the watcher.
	w.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := w.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the watcher of this run: %w", err), lock.Close())
	}
	return &lease{path: path, lock: lock, watcher: w}, nil
}

// end says that the run ends in order, and waits for the watcher.
func (l *lease) end() error {
	err := errors.Join(os.Remove(l.path), l.lock.Close())
	if waited := l.watcher.Wait(); waited != nil && !errors.Is(waited, syscall.ECHILD) { // a cluster of this process may bury it
		err = errors.Join(err, fmt.Errorf("the watcher of the run: %w", waited))
	}
	return err
}

// watch waits for the end of a run, and clears up after it.
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

// await takes the lock of a run that has ended, and says whether it ended in order: then the file is there no more. It also
// is not when somebody else has cleared up.
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

// sweepDead clears up after the runs in base whose process was killed, and their watcher with it.
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
		return nil // it begins, or has ended in order, or is gone
	}
	defer lock.Close()
	cleared, err := await(lock, unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK) || cleared:
		return nil // it goes on, or somebody else is clearing up, or has
	case err != nil:
		return err
	}
	return clearUp(dir, false)
}
