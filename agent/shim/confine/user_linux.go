package confine

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// User is the user as which a task runs. The zero value is the user of the agent.
type User struct {
	UID, GID uint32
	// Groups are the supplementary groups.
	Groups []uint32
}

// None reports whether the task has the user of the agent. No task runs as root in the name of a tenant.
func (u *User) None() bool { return u.UID == 0 }

// Text returns the user as a text.
func (u *User) Text() string {
	text := strconv.FormatUint(uint64(u.UID), 10) + " " + strconv.FormatUint(uint64(u.GID), 10)
	for _, group := range u.Groups {
		text += " " + strconv.FormatUint(uint64(group), 10)
	}
	return text
}

// Parse parses a result of Text.
func (u *User) Parse(text string) bool {
	*u = User{}
	for n, rest, more := 0, text, true; more; n++ {
		var word string
		word, rest, more = cut(rest, ' ')
		id, err := strconv.ParseUint(word, 10, 31)
		if err != nil {
			return false
		}
		switch n {
		case 0:
			u.UID = uint32(id)
		case 1:
			u.GID = uint32(id)
		default:
			u.Groups = append(u.Groups, uint32(id))
		}
	}
	return u.UID != 0
}

// Use makes a process run as the user.
func (u *User) Use(attr *syscall.SysProcAttr) {
	if !u.None() {
		attr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
}

// As runs a function with the rights of the user on files. It runs on a thread of its own, because the kernel keeps these rights
// by thread.
func (u *User) As(f func()) error {
	if u.None() {
		f()
		return nil
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := u.become()
		if err == nil {
			f()
		}
		result <- err
	}()
	return <-result
}

// Cannot returns the first of some paths that the user cannot read where it is, and why: mounted elsewhere, it would be reached past the
// directories above it.
func (u *User) Cannot(paths []string) (path string, err error) {
	for _, path := range paths {
		failed := u.As(func() {
			var fd int
			// A FIFO must not hold up the shim.
			if fd, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0); err == nil {
				_ = syscall.Close(fd)
			}
		})
		if failed != nil {
			err = failed
		}
		if err != nil {
			return path, err
		}
	}
	return "", nil
}

// become gives the calling thread the rights of the user on files. The calls of package syscall would change all threads.
func (u *User) become() error {
	var groups *uint32
	if len(u.Groups) > 0 {
		groups = &u.Groups[0]
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(u.Groups)), uintptr(unsafe.Pointer(groups)), 0); errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	// These return the former id, and no error: a second call tells whether the first one worked.
	for _, call := range []struct {
		number uintptr
		id     uint32
	}{{syscall.SYS_SETFSGID, u.GID}, {syscall.SYS_SETFSUID, u.UID}} {
		_, _, _ = syscall.RawSyscall(call.number, uintptr(call.id), 0, 0)
		if now, _, _ := syscall.RawSyscall(call.number, uintptr(call.id), 0, 0); uint32(now) != call.id {
			return syscall.EPERM
		}
	}
	return nil
}

// Give makes the user the owner of a file or directory, through a descriptor.
func (u *User) Give(fd int) error {
	if u.None() {
		return nil
	}
	return syscall.Fchown(fd, int(u.UID), int(u.GID))
}

// GiveStream makes the user the owner of a pipe or a terminal: programs open /dev/stdout and /dev/tty by their names. Other
// devices are nobody's.
func (u *User) GiveStream(fd int) {
	var stat syscall.Stat_t
	if u.None() || syscall.Fstat(fd, &stat) != nil {
		return
	}
	const firstTerminal, lastTerminal = 136, 143
	major := stat.Rdev >> 8 & 0xfff
	if kind := stat.Mode & syscall.S_IFMT; kind == syscall.S_IFIFO || (kind == syscall.S_IFCHR && major >= firstTerminal && major <= lastTerminal) {
		_ = u.Give(fd)
	}
}

// GiveFile makes the user the owner of a file in the directory of the task, and makes it. The directory belongs to the
// agent, so nobody else can put a link in its place.
func (u *User) GiveFile(name string) error {
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC|syscall.O_CREAT, 0o600)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer syscall.Close(fd)
	return u.Give(fd)
}

// GiveTree makes the user the owner of a file, or of a directory with all that is in it. The agent has made it, and no task has
// had it yet.
func (u *User) GiveTree(path string) error {
	err := syscall.Lchown(path, int(u.UID), int(u.GID))
	if err == syscall.ENOENT {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "chown", Path: path, Err: err}
	}
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := u.GiveTree(path + "/" + e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// MakeDir makes a directory of a task, and those above it. In a directory of the agent, own, it makes what is missing and gives the
// last one to the user; what lies elsewhere, or in a directory of the user, the user makes. So nobody gets what the user could not
// have made: a task may put a link into any directory of its user.
func (u *User) MakeDir(own, dir string) error {
	if u.None() {
		return os.MkdirAll(dir, 0o755)
	}
	if own != "" && len(dir) > len(own) && dir[:len(own)] == own && dir[len(own)] == '/' {
		if made, err := u.MakeOwn(own, dir[len(own)+1:]); made || err != nil {
			return err
		}
	}
	var err error
	if failed := u.As(func() { err = os.MkdirAll(dir, 0o700) }); failed != nil {
		return failed
	}
	return err
}

// MakeOwn makes a directory below one of the agent, and gives it to the user. It returns false if the path leads through something
// that is no directory of the agent.
func (u *User) MakeOwn(own, path string) (made bool, err error) {
	const flags = oPath | syscall.O_DIRECTORY | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	at, err := syscall.Open(own, flags, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = syscall.Close(at) }()
	for more := true; more; {
		var name string
		name, path, more = cut(path, '/')
		if name == "" || name == "." || name == ".." {
			return false, syscall.EINVAL
		}
		if err := syscall.Mkdirat(at, name, 0o711); err != nil && err != syscall.EEXIST {
			return false, err
		}
		next, err := syscall.Openat(at, name, flags, 0)
		if err == syscall.ENOTDIR || err == syscall.ELOOP {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		_ = syscall.Close(at)
		at = next
		var stat syscall.Stat_t
		if err := syscall.Fstat(at, &stat); err != nil {
			return false, err
		}
		if int(stat.Uid) != os.Geteuid() {
			// It is the directory that was asked for, of an earlier attempt, or one of the user on the way there.
			return !more && stat.Uid == u.UID, nil
		}
	}
	// A descriptor of a path alone cannot be changed. Its name in /proc leads to the directory itself.
	dir, err := syscall.Open("/proc/self/fd/"+strconv.Itoa(at), syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer syscall.Close(dir)
	if err := syscall.Fchmod(dir, 0o700); err != nil {
		return false, err
	}
	return true, u.Give(dir)
}
