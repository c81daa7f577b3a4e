// Package durable writes files that must survive a power cut.
//
// Contract: every file that Mind must have after a power cut is written by this package, and only by it; a test checks the
// whole program. A file is written under a temporary name, synced and renamed, and then its directory is synced.
//
// Guarantees: a power cut at any moment leaves the old or the new content, complete; when a function has returned without
// an error, it is the new one. The same holds if the process is killed. Any number of goroutines and processes may replace
// a file; the last one wins.
//
// Not guaranteed: anything on a disk that falsely reports writes as done. A process that is killed during a write may leave
// a file whose name begins with ".new-": nothing reads it, and Sweep removes it.
//
// A sync costs milliseconds, so files that may be lost with the machine are written without it. Those places are listed,
// each with its reason, in the test TestNothingElseWritesFiles.
//
// # Why not a library
//
// github.com/google/renameio/v2 does the same except for the last step: it does not sync the directory, so after a power
// cut a replaced file may be the old one although the call had returned. Its system calls cannot be replaced, so no test
// could show what each order of them leaves.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// WriteFile replaces a file. Its mode is perm, regardless of the umask.
func WriteFile(name string, data []byte, perm os.FileMode) error {
	return machine.writeFile(name, data, perm)
}

// Rename renames a synced file or directory, and replaces an existing one.
func Rename(from, to string) error { return machine.rename(from, to) }

// SwapNames atomically swaps the names of two synced files or directories.
func SwapNames(a, b string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		return &os.LinkError{Op: "swap", Old: a, New: b, Err: err}
	}
	return errors.Join(SyncDir(filepath.Dir(a)), SyncDir(filepath.Dir(b)))
}

// RenameTree is Rename for a directory whose files are synced, but not yet the directories in it.
func RenameTree(from, to string) error {
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = SyncDir(path)
		}
		return err
	})
	if err != nil {
		return err
	}
	return Rename(from, to)
}

// MkdirAll makes a directory and its missing parents.
func MkdirAll(dir string, perm os.FileMode) error { return machine.mkdirAll(filepath.Clean(dir), perm) }

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error { return machine.SyncDir(dir) }

// File is the new content of a file that is being replaced. Only one goroutine may use it.
type File struct {
	disk disk
	file file
	name string
	done bool
}

// Create starts to replace a file. The caller must call Commit or Discard.
func Create(name string, perm os.FileMode) (*File, error) { return machine.create(name, perm) }

// Write implements [io.Writer].
func (f *File) Write(p []byte) (int, error) { return f.file.Write(p) }

// Name returns the temporary path of the file until it is committed.
func (f *File) Name() string { return f.file.Name() }

// Commit moves the file into place.
func (f *File) Commit() error {
	if f.done {
		return os.ErrClosed
	}
	f.done = true
	aside := f.file.Name()
	// In this order: a name must never refer to content that is not on disk yet.
	err := f.file.Sync()
	err = errors.Join(err, f.file.Close())
	if err == nil {
		err = f.disk.Rename(aside, f.name)
	}
	if err != nil {
		return errors.Join(err, f.disk.Remove(aside))
	}
	return f.disk.SyncDir(filepath.Dir(f.name))
}

// Discard removes the file, unless it was committed.
func (f *File) Discard() {
	if !f.done {
		f.done = true
		_ = f.file.Close()
		_ = f.disk.Remove(f.file.Name())
	}
}

// asidePrefix is the prefix of temporary files.
const asidePrefix = ".new-"

// Sweep removes the temporary files that killed processes left in a directory. No process may be writing there.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var faults []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), asidePrefix) {
			faults = append(faults, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(faults...)
}

// steps makes the system calls in an order that is safe in a power cut.
type steps struct{ disk }

var machine = steps{system{}}

// aside numbers the temporary files of this process.
var aside atomic.Uint64

func (s steps) create(name string, perm os.FileMode) (*File, error) {
	prefix := filepath.Join(filepath.Dir(name), asidePrefix+strconv.Itoa(os.Getpid())+"-")
	for {
		// A process on another machine, or one before this process with the same id, may have used the same number.
		f, err := s.Create(prefix+strconv.FormatUint(aside.Add(1), 10), perm)
		switch {
		case err == nil:
			return &File{disk: s.disk, file: f, name: name}, nil
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		}
	}
}

func (s steps) writeFile(name string, data []byte, perm os.FileMode) error {
	f, err := s.create(name, perm)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Discard()
		return err
	}
	return f.Commit()
}

func (s steps) rename(from, to string) error {
	if err := s.Rename(from, to); err != nil {
		return err
	}
	if err := s.SyncDir(filepath.Dir(to)); err != nil || filepath.Dir(from) == filepath.Dir(to) {
		return err
	}
	return s.SyncDir(filepath.Dir(from))
}

func (s steps) mkdirAll(dir string, perm os.FileMode) error {
	err := s.Mkdir(dir, perm)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		if err = s.mkdirAll(filepath.Dir(dir), perm); err == nil {
			err = s.Mkdir(dir, perm)
		}
	}
	switch {
	case err == nil:
		return s.SyncDir(filepath.Dir(dir))
	case errors.Is(err, fs.ErrExist):
		// It may be a link to a directory.
		if info, statErr := os.Stat(dir); statErr == nil && info.IsDir() {
			return nil
		}
	}
	return err
}

// disk has the system calls that this package makes.
type disk interface {
	// Create makes a file that is not there.
	Create(name string, perm os.FileMode) (file, error)
	Rename(from, to string) error
	Remove(name string) error
	Mkdir(dir string, perm os.FileMode) error
	// SyncDir syncs the names in a directory.
	SyncDir(dir string) error
}

type file interface {
	Name() string
	Write(p []byte) (int, error)
	Sync() error
	Close() error
}

// system is the disk of this machine.
type system struct{}

func (system) Create(name string, perm os.FileMode) (file, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(perm); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return f, nil
}

func (system) Rename(from, to string) error { return os.Rename(from, to) }

func (system) Remove(name string) error { return os.Remove(name) }

func (system) Mkdir(dir string, perm os.FileMode) error { return os.Mkdir(dir, perm) }

func (system) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // a file system that cannot sync directories
	}
	return errors.Join(err, d.Close())
}
