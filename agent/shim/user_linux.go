package shim

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

// none: the task has the user of the agent. No task runs as root in the name of a tenant.
func (u *User) none() bool { return u.UID == 0 }

func (u *User) text() string {
	text := strconv.FormatUint(uint64(u.UID), 10) + " " + strconv.FormatUint(uint64(u.GID), 10)
	for _, group := range u.Groups {
		text += " " + strconv.FormatUint(uint64(group), 10)
	}
	return text
}

// parse parses a result of text.
func (u *User) parse(text string) bool {
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

// use makes a process run as the user.
func (u *User) use(attr *syscall.SysProcAttr) {
	if !u.none() {
		attr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
}

// As runs a function with the rights of the user on files. It runs on a thread of its own, because the kernel keeps these rights
// by thread.
func (u *User) As(f func()) error {
	if u.none() {
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

// give makes the user the owner of a file or directory, through a descriptor.
func (u *User) give(fd int) error {
	if u.none() {
		return nil
	}
	return syscall.Fchown(fd, int(u.UID), int(u.GID))
}

// giveStream makes the user the owner of a pipe or a terminal: programs open /dev/stdout and /dev/tty by their names. Other
// devices are nobody's.
func (u *User) giveStream(fd int) {
	var stat syscall.Stat_t
	if u.none() || syscall.Fstat(fd, &stat) != nil {
		return
	}
	const firstTerminal, lastTerminal = 136, 143
	major := stat.Rdev >> 8 & 0xfff
	if kind := stat.Mode & syscall.S_IFMT; kind == syscall.S_IFIFO || (kind == syscall.S_IFCHR && major >= firstTerminal && major <= lastTerminal) {
		_ = u.give(fd)
	}
}

// giveFile makes the user the owner of a file in the directory of the task, and makes it. The directory belongs to the
// agent, so nobody else can put a link in its place.
func (u *User) giveFile(name string) error {
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC|syscall.O_CREAT, 0o600)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer syscall.Close(fd)
	return u.give(fd)
}

// giveTree makes the user the owner of a file, or of a directory with all that is in it. The agent has made it, and no task has
// had it yet.
func (u *User) giveTree(path string) error {
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
		if err := u.giveTree(path + "/" + e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// ownUmask is the umask that this process was started with; negative: it was not asked for yet.
var ownUmask = -1

// resetUmask undoes what an earlier task of this process needed.
func resetUmask() {
	if now := syscall.Umask(0o022); ownUmask < 0 {
		ownUmask = now
	}
	syscall.Umask(ownUmask)
}

// prepare gives the user those files in the directory of the task that it may write or read, and lets it reach them: it passes
// through the directory, and can neither list nor change it.
func (s *shim) prepare() error {
	u := &s.spec.User
	if u.none() {
		return nil
	}
	for _, name := range []string{MetricsFile, EventsFile} {
		if err := u.giveFile(name); err != nil {
			return err
		}
	}
	for _, name := range s.spec.Given {
		if err := u.giveTree(name); err != nil {
			return err
		}
	}
	return os.Chmod(".", 0o711)
}

// makeDirs makes the directories of the task. As long as a path leads through directories of the agent, the agent makes what is
// missing and gives the last one to the user; what lies elsewhere, or in a directory of the user, the user makes. So nobody gets what
// the user could not have made: a task may put a link into any directory of its user.
func (s *shim) makeDirs() (dir string, err error) {
	u := &s.spec.User
	for _, dir := range s.spec.Dirs {
		if u.none() {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return dir, err
			}
			continue
		}
		made := false
		if within(dir, s.spec.Own) {
			if made, err = u.makeOwn(s.spec.Own, dir[len(s.spec.Own)+1:]); err != nil {
				return dir, err
			}
		}
		if made {
			continue
		}
		if failed := u.As(func() { err = os.MkdirAll(dir, 0o700) }); failed != nil || err != nil {
			if failed != nil {
				err = failed
			}
			return dir, err
		}
	}
	return "", nil
}

// makeOwn makes a directory below one of the agent, and gives it to the user. It returns false if the path leads through something
// that is no directory of the agent.
func (u *User) makeOwn(own, path string) (made bool, err error) {
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
	return true, u.give(dir)
}

// within reports whether a clean path lies in a directory.
func within(path, dir string) bool {
	return dir != "" && len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/'
}
