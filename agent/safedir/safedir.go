// Package safedir reads and walks directories in which a task may have made any kind of file.
//
// Contract: Open, Resolved and Below open a directory; Walk visits all entries in it and below.
//
// Guarantees: a walk opens only directories, and none outside of the given one: a link is examined, and followed only
// if its target is inside. A FIFO or a device is an entry like others. A walk is bounded in entries, depth and time; a
// directory of a million files is not read into memory.
//
// Not guaranteed: a consistent picture, if files change during the walk.
package safedir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Reasons for stopping a walk.
var (
	ErrTooLarge = errors.New("it has too many files and directories")
	ErrTooDeep  = fmt.Errorf("directories in it are nested deeper than %d levels", maxDepth)
)

const (
	// maxDepth limits how deep directories are nested; each level takes a file descriptor.
	maxDepth = 64
	// atOnce is how many names are read at a time.
	atOnce = 512
)

// Dir is an open directory.
type Dir struct{ file *os.File }

// Open opens a directory by its path, and follows links in it. One that may be passed through and not listed is opened, too:
// what is below it can be, by name.
func Open(path string) (*Dir, error) {
	const how = unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Open(path, unix.O_RDONLY|how, 0)
	if errors.Is(err, unix.EACCES) {
		fd, err = unix.Open(path, unix.O_PATH|how, 0) // it may be passed through
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &Dir{os.NewFile(uintptr(fd), path)}, nil
}

// Resolved opens a directory by an absolute path. It fails if the path contains a link.
func Resolved(path string) (*Dir, error) {
	root, err := Open("/")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name, err := filepath.Rel("/", path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return root.Below(name)
}

// Below opens a directory below this one, without following links; "." opens this one again.
func (d *Dir) Below(name string) (*Dir, error) {
	path := filepath.Join(d.file.Name(), name)
	fd, err := d.open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &Dir{os.NewFile(uintptr(fd), path)}, nil
}

// Look examines a file below the directory without opening it or following links; "." examines the directory.
func (d *Dir) Look(name string) (stat unix.Stat_t, err error) {
	fd, err := d.open(name, unix.O_PATH|unix.O_CLOEXEC, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		err = unix.Fstat(fd, &stat)
		_ = unix.Close(fd)
	}
	if err != nil {
		return stat, &fs.PathError{Op: "look at", Path: filepath.Join(d.file.Name(), name), Err: err}
	}
	return stat, nil
}

// Readable checks that a regular file below the directory can be read, without following links.
func (d *Dir) Readable(name string) error {
	fd, err := d.open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return &fs.PathError{Op: "open", Path: filepath.Join(d.file.Name(), name), Err: err}
	}
	return unix.Close(fd)
}

// File opens a regular file below the directory to read it, without following links.
func (d *Dir) File(name string) (*os.File, error) {
	path := filepath.Join(d.file.Name(), name)
	fd, err := d.open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Target returns where a link inside finally leads, relative to the directory.
func (d *Dir) Target(name string) (string, error) {
	fd, err := d.open(name, unix.O_PATH|unix.O_CLOEXEC, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return "", &fs.PathError{Op: "follow", Path: filepath.Join(d.file.Name(), name), Err: err}
	}
	defer unix.Close(fd)
	at := func(fd int) (string, error) { return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)) }
	top, err := at(int(d.file.Fd()))
	if err != nil {
		return "", err
	}
	to, err := at(fd)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(top, to)
	if err == nil && !filepath.IsLocal(rel) {
		err = &fs.PathError{Op: "follow", Path: name, Err: unix.EXDEV}
	}
	return rel, err
}

// Root returns the directory as an os.Root, which resolves no name outside of it.
func (d *Dir) Root() (*os.Root, error) {
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(d.file.Fd())))
}

// Close closes the directory.
func (d *Dir) Close() error { return d.file.Close() }

// open opens a name below the directory.
func (d *Dir) open(name string, flags int, resolve uint64) (fd int, err error) {
	if !filepath.IsLocal(name) {
		return -1, unix.EXDEV
	}
	for range 100 {
		// The call returns EAGAIN if a directory was renamed during it.
		fd, err = unix.Openat2(int(d.file.Fd()), name, &unix.OpenHow{Flags: uint64(flags), Resolve: resolve})
		if err != unix.EAGAIN && err != unix.EINTR {
			break
		}
	}
	if err != unix.ENOSYS && err != unix.EPERM {
		return fd, err
	}
	// The kernel lacks that call: open one part of the name after the other, without following links.
	fd = -1
	at, rest := int(d.file.Fd()), filepath.Clean(name)
	for rest != "" {
		part, more := rest, ""
		for i := range len(rest) {
			if rest[i] == filepath.Separator {
				part, more = rest[:i], rest[i+1:]
				break
			}
		}
		how := unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
		if more == "" {
			how = flags
		}
		next, err := unix.Openat(at, part, how|unix.O_NOFOLLOW, 0)
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		if err != nil {
			return -1, err
		}
		fd, at, rest = next, next, more
	}
	return fd, nil
}

// Entry is an entry of a directory.
type Entry struct {
	// Path is relative to the walked directory.
	Path string
	Dir  bool
	// Regular: the entry is a regular file, or a link to one inside.
	Regular bool
	// Link: the entry is a link.
	Link bool
	// Mode has the permissions.
	Mode uint32
	// Size of a file; for a link to a file inside, the size of its target.
	Size int64
	// Changed is when the contents were last changed.
	Changed unix.Timespec
	// Outside is set for a link that leads out of the directory, or nowhere, and is its target.
	Outside string
}

// Walk visits all entries in the directory and below, in no particular order. Each entry decrements left; when nothing
// is left, Walk returns ErrTooLarge.
func (d *Dir) Walk(ctx context.Context, left *int, visit func(Entry) error) error {
	return d.walk(ctx, d, "", left, visit)
}

func (d *Dir) walk(ctx context.Context, top *Dir, prefix string, left *int, visit func(Entry) error) error {
	if depth(prefix) > maxDepth {
		return ErrTooDeep
	}
	return d.names(func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if *left--; *left < 0 {
			return ErrTooLarge
		}
		e, err := d.entry(top, prefix, name)
		if err != nil {
			return err
		}
		if err := visit(e); err != nil || !e.Dir {
			return err
		}
		sub, err := d.Below(name)
		if err != nil {
			return err
		}
		defer sub.Close()
		return sub.walk(ctx, top, e.Path, left, visit)
	})
}

func depth(path string) (n int) {
	for i := range len(path) {
		if path[i] == '/' {
			n++
		}
	}
	return n
}

// names calls each with the names in a directory. It reads some at a time.
func (d *Dir) names(each func(name string) error) error {
	for {
		names, err := d.file.Readdirnames(atOnce)
		for _, name := range names {
			if err := each(name); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (d *Dir) entry(top *Dir, prefix, name string) (Entry, error) {
	var stat unix.Stat_t
	e := Entry{Path: name}
	if prefix != "" {
		e.Path = prefix + "/" + name
	}
	if err := unix.Fstatat(int(d.file.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return e, &fs.PathError{Op: "look at", Path: filepath.Join(d.file.Name(), name), Err: err}
	}
	e.Size, e.Changed, e.Mode = stat.Size, stat.Mtim, stat.Mode&0o777
	e.Dir, e.Regular = stat.Mode&unix.S_IFMT == unix.S_IFDIR, stat.Mode&unix.S_IFMT == unix.S_IFREG
	if stat.Mode&unix.S_IFMT != unix.S_IFLNK {
		return e, nil
	}
	e.Link = true
	// A link counts as its target if that is inside.
	fd, err := top.open(e.Path, unix.O_PATH|unix.O_CLOEXEC, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
	if err == nil {
		var to unix.Stat_t
		err = unix.Fstat(fd, &to)
		_ = unix.Close(fd)
		if err == nil && to.Mode&unix.S_IFMT != unix.S_IFLNK {
			e.Size, e.Regular = to.Size, to.Mode&unix.S_IFMT == unix.S_IFREG
			return e, nil
		}
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(d.file.Fd()), name, buf)
	if err != nil {
		return e, &fs.PathError{Op: "read link", Path: filepath.Join(d.file.Name(), name), Err: err}
	}
	e.Size, e.Outside = 0, string(buf[:n])
	return e, nil
}

// Child is a directory directly below another one.
type Child struct {
	Name string
	Stat unix.Stat_t
}

// Children lists the directories directly below this one. It examines at most most entries; all reports whether there
// were no more.
func (d *Dir) Children(most int) (dirs []Child, all bool, err error) {
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return nil, false, err
	}
	full := errors.New("enough")
	err = d.names(func(name string) error {
		if most--; most < 0 {
			return full
		}
		c := Child{Name: name}
		err := unix.Fstatat(int(d.file.Fd()), name, &c.Stat, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && c.Stat.Mode&unix.S_IFMT == unix.S_IFDIR {
			dirs = append(dirs, c)
		}
		return nil // gone meanwhile
	})
	if errors.Is(err, full) {
		return dirs, false, nil
	}
	return dirs, true, err
}

// Stat examines the directory itself.
func (d *Dir) Stat() (stat unix.Stat_t, err error) {
	err = unix.Fstat(int(d.file.Fd()), &stat)
	return stat, err
}

// Within reports whether a path is a directory or lies below it. It compares names only.
func Within(path, dir string) bool {
	if filepath.IsAbs(path) && filepath.IsAbs(dir) {
		// Rel would make a name that nobody reads: this is called for every mount of the machine.
		path, dir = filepath.Clean(path), filepath.Clean(dir)
		rest, ok := strings.CutPrefix(path, dir)
		return ok && (rest == "" || rest[0] == filepath.Separator || dir == string(filepath.Separator))
	}
	name, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(name)
}
