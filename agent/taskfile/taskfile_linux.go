// Package taskfile reads and writes files in the directory of a task, in which the task may have made any kind of file.
//
// Contract: Open, Read, Size and Names read below a directory. They accept only regular files with one name; no part of
// the path, including the directory itself, may be a link. Create, Replace and Append write such a file.
//
// Guarantees: nothing outside of the directory is opened, whatever the task puts in its place at any moment. Only
// regular files are opened: a FIFO could block, and opening a device may have effects. Reads are bounded. A reader sees
// a file written by Replace completely or not at all, whichever process is killed at whatever moment.
//
// Not guaranteed: that the content is the task's own. A task that may make hard links to a file that it cannot read
// (see the setting fs.protected_hardlinks) can give it a name here; a file with several names is refused, but not one
// that had several names before. Nothing is synced: after a power cut a file may be empty, incomplete or old. It is not
// needed then, and a sync would cost each task milliseconds (docs/develop/agent.md, "After a power cut").
//
// The shim uses this package, too, so it imports little (see package shim): the one system call that package syscall
// lacks is made by its number, which is the same on all architectures.
package taskfile

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Reasons for not reading a file, for users.
var (
	ErrNotRegular = errors.New("it is not a regular file")
	ErrNames      = errors.New("it has several names (hard links)")
	ErrReplaced   = errors.New("something else was put in its place")
	ErrTooLong    = errors.New("it is longer than it may be")
	ErrTooMany    = errors.New("the directory has too many files")
	errName       = errors.New("it is not the name of a file below the directory")
)

const (
	// newMode is the mode of new files.
	newMode           = 0o600
	oPath             = 0x200000
	sysOpenat2        = 437
	resolveNoSymlinks = 0x04
	resolveBeneath    = 0x08
	readFlags         = syscall.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY | syscall.O_CLOEXEC
)

// Open opens a file below a directory for reading.
func Open(dir, name string) (file *os.File, err error) {
	err = look(dir, name, func(root int, seen *syscall.Stat_t) error {
		// Look at the file before opening it: opening a device or a FIFO may have effects.
		fd, err := beneath(root, name, readFlags)
		if err != nil {
			return err
		}
		var now syscall.Stat_t
		if err = syscall.Fstat(fd, &now); err == nil && (now.Dev != seen.Dev || now.Ino != seen.Ino) {
			err = ErrReplaced
		}
		if err != nil {
			_ = syscall.Close(fd)
			return err
		}
		file = os.NewFile(uintptr(fd), dir+"/"+name)
		return nil
	})
	return file, wrap("open", dir, name, err)
}

// Read reads a file that is at most most bytes long.
func Read(dir, name string, most int64) ([]byte, error) {
	file, err := Open(dir, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		err = ErrTooLong
	}
	if err != nil {
		return nil, wrap("read", dir, name, err)
	}
	return data, nil
}

// Size returns the length of a file, and its change time in Unix nanoseconds.
func Size(dir, name string) (size, changed int64, err error) {
	err = look(dir, name, func(_ int, stat *syscall.Stat_t) error {
		size, changed = stat.Size, stat.Mtim.Nano()
		return nil
	})
	return size, changed, wrap("look at", dir, name, err)
}

// Names lists a directory, in no particular order.
func Names(dir string, most int) (names []string, err error) {
	fd, err := retry(func() (int, error) {
		return syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, wrap("list", dir, "", err)
	}
	file := os.NewFile(uintptr(fd), dir)
	defer file.Close()
	// Not all names are read: the task may have made millions of files.
	if names, err = file.Readdirnames(most + 1); err == io.EOF {
		err = nil
	}
	if len(names) > most {
		err = ErrTooMany
	}
	if err != nil {
		return nil, wrap("list", dir, "", err)
	}
	return names, nil
}

// Replace writes a file in a directory and replaces an existing one. It is safe for concurrent use.
func Replace(dir, name string, data []byte) error {
	root, err := openDir(dir)
	if err != nil {
		return wrap("write", dir, name, err)
	}
	defer syscall.Close(root)
	aside := ""
	for range 100 {
		// A killed process left a file with this name, or the task has put it there.
		aside = name + "." + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatUint(replaced.Add(1), 10) + ".new"
		if err = write(root, aside, data, syscall.O_CREAT|syscall.O_EXCL); err != syscall.EEXIST {
			break
		}
	}
	if err == nil {
		err = syscall.Renameat(root, aside, root, name)
	}
	if err != nil && err != syscall.EEXIST {
		_ = syscall.Unlinkat(root, aside)
	}
	return wrap("write", dir, name, err)
}

// replaced numbers the temporary files of this process.
var replaced atomic.Uint64

// Create writes a file that does not exist yet.
func Create(dir, name string, data []byte) error {
	root, err := openDir(dir)
	if err == nil {
		err = write(root, name, data, syscall.O_CREAT|syscall.O_EXCL)
		_ = syscall.Close(root)
	}
	return wrap("write", dir, name, err)
}

// Append appends to an existing file in one system call, so that concurrent writers do not mix their lines.
func Append(dir, name string, data []byte) error {
	err := look(dir, name, func(root int, _ *syscall.Stat_t) error { return write(root, name, data, syscall.O_APPEND) })
	return wrap("write", dir, name, err)
}

func write(root int, name string, data []byte, flags int) error {
	fd, err := beneath(root, name, flags|syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	_, err = file.Write(data)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// look calls do for a regular file with one name, which it does not open, and for the directory that contains it.
func look(dir, name string, do func(root int, stat *syscall.Stat_t) error) error {
	root, err := openDir(dir)
	if err != nil {
		return err
	}
	defer syscall.Close(root)
	fd, err := beneath(root, name, oPath|syscall.O_CLOEXEC)
	if err != nil {
		return err
	}
	// The file stays open until do returns, so that its inode number is not reused.
	defer syscall.Close(fd)
	var stat syscall.Stat_t
	switch err := syscall.Fstat(fd, &stat); {
	case err != nil:
		return err
	case stat.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return ErrNotRegular
	case stat.Nlink > 1:
		return ErrNames
	}
	return do(root, &stat)
}

// openDir opens the directory of a task, which must not be a link.
func openDir(dir string) (fd int, err error) {
	return retry(func() (int, error) {
		return syscall.Open(dir, oPath|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	})
}

func retry(open func() (int, error)) (fd int, err error) {
	for range 100 {
		// The call returns EAGAIN if a directory was renamed during it.
		if fd, err = open(); err != syscall.EINTR && err != syscall.EAGAIN {
			break
		}
	}
	return fd, err
}

// noOpenat2 is set on a kernel without openat2, or under a filter that refuses it.
var noOpenat2 atomic.Bool

// beneath opens a name below a directory, without following links.
func beneath(root int, name string, flags int) (fd int, err error) {
	if !local(name) {
		return -1, errName
	}
	if noOpenat2.Load() {
		return stepwise(root, name, flags)
	}
	fd, err = retry(func() (int, error) {
		how := struct{ flags, mode, resolve uint64 }{uint64(flags), 0, resolveBeneath | resolveNoSymlinks}
		if flags&syscall.O_CREAT != 0 {
			how.mode = newMode
		}
		path, err := syscall.BytePtrFromString(name)
		if err != nil {
			return -1, err
		}
		fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(root), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if errno != 0 {
			return -1, errno
		}
		return int(fd), nil
	})
	if err == syscall.ENOSYS || err == syscall.EPERM {
		noOpenat2.Store(true)
		return stepwise(root, name, flags)
	}
	return fd, err
}

// stepwise does the same as beneath, one part of the name at a time.
func stepwise(root int, name string, flags int) (fd int, err error) {
	at := root
	for start := 0; ; {
		end := start
		for end < len(name) && name[end] != '/' {
			end++
		}
		part, last := name[start:end], end == len(name)
		how := oPath | syscall.O_DIRECTORY | syscall.O_CLOEXEC
		if last {
			how = flags
		}
		next, err := retry(func() (int, error) { return syscall.Openat(at, part, how|syscall.O_NOFOLLOW, newMode) })
		if at != root {
			_ = syscall.Close(at)
		}
		if err != nil || last {
			return next, err
		}
		at, start = next, end+1
	}
}

// local reports whether a name consists of valid parts.
func local(name string) bool {
	for start := 0; ; {
		end := start
		for end < len(name) && name[end] != '/' {
			if name[end] == 0 {
				return false
			}
			end++
		}
		if part := name[start:end]; part == "" || part == "." || part == ".." {
			return false
		}
		if end == len(name) {
			return true
		}
		start = end + 1
	}
}

func wrap(doing, dir, name string, err error) error {
	switch err {
	case nil:
		return nil
	case syscall.ELOOP:
		err = ErrNotRegular // a link
	}
	if name != "" {
		dir += "/" + name
	}
	return &os.PathError{Op: doing, Path: dir, Err: err}
}
