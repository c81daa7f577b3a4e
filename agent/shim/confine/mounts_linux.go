package confine

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Kind is the kind of a Mount.
type Kind int

// The kinds of mounts. Records have their numbers.
const (
	// Bound is a file or directory of the machine, with all that is mounted below it.
	Bound Kind = iota
	// Memory is an empty file system in memory.
	Memory
	// Queues has the message queues of the room.
	Queues
	// Hidden is an empty directory, or an empty file.
	Hidden
	kinds
)

// Mount is a file system in a Room.
type Mount struct {
	Kind Kind
	// From is the file or directory of the machine that is Bound. Neither From nor To leads through a link, or it is an error: somebody
	// could have put it there meanwhile.
	From string
	// To is where it is mounted. If it is missing in an empty file system of the room, it is made.
	To string
	// Options are those of Memory, such as "mode=1777,size=64m".
	Options string
	// Write leaves a Bound mount as writable as it is on the machine. Otherwise it is read-only.
	Write bool
	// Optional leaves a mount out whose From or To is not there, or cannot be reached.
	Optional bool
}

const (
	sysOpenTree     = 428
	sysMoveMount    = 429
	sysOpenat2      = 437
	sysMountSetattr = 442

	openTreeClone    = 1
	atFDCWD          = -0x64
	atEmptyPath      = 0x1000
	atRecursive      = 0x8000
	moveFromEmpty    = 0x04
	moveToEmpty      = 0x40
	attrReadOnly     = 0x1
	resolveNoLinks   = 0x4 // RESOLVE_NO_SYMLINKS
	sizeOfMountAttr  = 32
	hiddenOptions    = "mode=755,size=1m,nr_inodes=1k"
	memoryFlags      = syscall.MS_NOSUID | syscall.MS_NODEV
	directoryForRoom = 0o755
)

// sysSetns is missing in package syscall.
var sysSetns = map[string]uintptr{"amd64": 308, "arm64": 268}[runtime.GOARCH]

// make takes and places the mount.
func (m *Mount) make() error {
	tree, err := m.take()
	if err != nil {
		return err
	}
	if tree > 0 {
		defer syscall.Close(tree)
	}
	_, err = m.place(tree)
	return err
}

// take returns a copy of the tree that is bound; 0: there is none.
func (m *Mount) take() (int, error) {
	if m.Kind != Bound {
		return 0, nil
	}
	from, err := open(m.From)
	if err != nil {
		if m.Optional && absent(err) {
			return 0, nil
		}
		return 0, &os.PathError{Op: "open", Path: m.From, Err: err}
	}
	defer syscall.Close(from)
	tree, _, errno := syscall.Syscall(sysOpenTree, uintptr(from), uintptr(pointer("")), openTreeClone|atRecursive|atEmptyPath|syscall.O_CLOEXEC)
	if errno != 0 {
		return 0, &os.PathError{Op: "copy the mounts at", Path: m.From, Err: errno}
	}
	if !m.Write {
		if err := readOnly(int(tree), "", true); err != nil {
			_ = syscall.Close(int(tree))
			return 0, &os.PathError{Op: "make read-only", Path: m.From, Err: err}
		}
	}
	return int(tree), nil
}

// place mounts what was taken. It returns false if there is no place for it.
func (m *Mount) place(tree int) (placed bool, err error) {
	if m.Kind == Bound && tree == 0 {
		return false, nil
	}
	to, err := open(m.To)
	if err == syscall.ENOENT && m.Kind != Hidden {
		to, err = makePoint(m.To, m.Kind != Bound || isDir(tree))
	}
	switch {
	case err == nil:
		defer syscall.Close(to)
	case m.Optional && absent(err), m.Kind == Hidden && err == syscall.ENOENT:
		return false, nil
	default:
		return false, &os.PathError{Op: "open", Path: m.To, Err: err}
	}
	switch m.Kind {
	case Memory:
		err = mount("tmpfs", self(to), "tmpfs", memoryFlags, m.Options)
	case Queues:
		err = mount("mqueue", self(to), "mqueue", memoryFlags|syscall.MS_NOEXEC, "")
	case Hidden:
		if isDir(to) {
			err = mount("tmpfs", self(to), "tmpfs", memoryFlags, hiddenOptions)
		} else {
			err = cover(to)
		}
	default:
		err = move(tree, to)
	}
	if err != nil {
		return false, &os.PathError{Op: "mount", Path: m.To, Err: err}
	}
	return true, nil
}

// cover hides a file.
func cover(to int) error {
	null := Mount{Kind: Bound, From: "/dev/null"}
	tree, err := null.take()
	if err != nil {
		return err
	}
	defer syscall.Close(tree)
	return move(tree, to)
}

// seal makes a hidden directory read-only, when all that is mounted in it has its place.
func (m *Mount) seal() error {
	at, err := open(m.To)
	if err != nil {
		return &os.PathError{Op: "open", Path: m.To, Err: err}
	}
	defer syscall.Close(at)
	if !isDir(at) {
		return nil
	}
	if err := readOnly(at, "", false); err != nil {
		return &os.PathError{Op: "make read-only", Path: m.To, Err: err}
	}
	return nil
}

// absent reports whether an error says that a path is not there, leads through a link, or is on a file server that does not let this
// process in.
func absent(err error) bool {
	switch err {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.EACCES, syscall.ENODEV, syscall.ESTALE, syscall.EIO, syscall.EHOSTDOWN, syscall.ETIMEDOUT, syscall.EROFS:
		return true
	}
	return false
}

// Shown reports whether a path of the machine is at the same place in a room with these mounts, and whether it may be written there.
func Shown(mounts []Mount, path string) (there, writable bool) {
	there = true
	for i := range mounts {
		m := &mounts[i]
		if path == m.To || len(path) > len(m.To) && path[:len(m.To)] == m.To && path[len(m.To)] == '/' {
			there = m.Kind == Bound && m.From == m.To
			writable = there && m.Write
		}
	}
	return there, writable
}

// open returns a descriptor of the place of a path that leads through no link. A file system that is mounted at its first use is
// mounted by it.
func open(path string) (int, error) {
	fd, _, err := openPlace(path)
	return fd, err
}

// openPlace does the same, and tells whether it is a directory.
func openPlace(path string) (fd int, dir bool, err error) {
	how := struct{ flags, mode, resolve uint64 }{oPath | syscall.O_CLOEXEC | syscall.O_DIRECTORY, 0, resolveNoLinks}
	at := int64(atFDCWD)
	for {
		fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(at), uintptr(pointer(path)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		switch {
		case errno == 0:
			return int(fd), how.flags&syscall.O_DIRECTORY != 0, nil
		case errno == syscall.ENOTDIR && how.flags&syscall.O_DIRECTORY != 0:
			how.flags &^= syscall.O_DIRECTORY
		case errno != syscall.EINTR && errno != syscall.EAGAIN:
			return -1, false, errno
		}
	}
}

// makePoint makes a directory, or an empty file, and those above it.
func makePoint(path string, dir bool) (int, error) {
	end := len(path) - 1
	for end > 0 && path[end] != '/' {
		end--
	}
	if end == 0 {
		return -1, syscall.EROFS // the root
	}
	above, err := open(path[:end])
	if err == syscall.ENOENT {
		above, err = makePoint(path[:end], true)
	}
	if err != nil {
		return -1, err
	}
	defer syscall.Close(above)
	if dir {
		err = syscall.Mkdirat(above, path[end+1:], directoryForRoom)
	} else {
		err = syscall.Mknodat(above, path[end+1:], syscall.S_IFREG|0o644, 0)
	}
	if err != nil && err != syscall.EEXIST {
		return -1, err
	}
	return open(path)
}

func isDir(fd int) bool {
	var stat syscall.Stat_t
	return syscall.Fstat(fd, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFDIR
}

// self returns a path of an open place. Package syscall has no fsmount, and mount wants a path.
func self(fd int) string {
	return "/proc/thread-self/fd/" + itoa(fd)
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

func mount(source, target, kind string, flags uintptr, options string) error {
	return syscall.Mount(source, target, kind, flags, options)
}

// move gives a tree of mounts its place.
func move(tree, to int) error {
	empty := pointer("")
	if _, _, errno := syscall.Syscall6(sysMoveMount, uintptr(tree), uintptr(empty), uintptr(to), uintptr(empty), moveFromEmpty|moveToEmpty, 0); errno != 0 {
		return errno
	}
	return nil
}

// readOnly makes a mount read-only, and with recursive all mounts below it.
func readOnly(at int, path string, recursive bool) error {
	attr := struct{ set, clear, propagation, userns uint64 }{set: attrReadOnly}
	flags := uintptr(0)
	if path == "" {
		flags |= atEmptyPath
	}
	if recursive {
		flags |= atRecursive
	}
	if _, _, errno := syscall.Syscall6(sysMountSetattr, uintptr(at), uintptr(pointer(path)), flags, uintptr(unsafe.Pointer(&attr)), sizeOfMountAttr, 0); errno != 0 {
		return errno
	}
	return nil
}
