package confine

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// Room gives a task namespaces of its own: it sees no process but its own, shares no memory with others, and has the file systems
// that the room lists, in a tree that is read-only elsewhere. All processes that a thread in the room starts are in it.
type Room struct {
	// Mounts are made in this order. Without any there is no room.
	Mounts []Mount

	first *first // nil: nobody has entered it
}

// None reports whether the task has no room.
func (r *Room) None() bool { return len(r.Mounts) == 0 }

// Enter makes the room. The calling goroutine must be locked to its thread, which can leave the room only by its end.
//
// The thread itself stays in its PID namespace: so the shim, on its other threads, signals and waits for the processes of the task
// as for any other. The new namespace begins with a process that reaps orphans.
func (r *Room) Enter() error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWPID); err != nil {
		return os.NewSyscallError("make namespaces", err)
	}
	// The name leads through the /proc of this machine, which is not that of the room.
	mounts, err := syscall.Open("/proc/thread-self/ns/mnt", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/proc/thread-self/ns/mnt", Err: err}
	}
	if err := r.furnish(); err != nil {
		_ = syscall.Close(mounts)
		return err
	}
	if r.first, err = startFirst(mounts); err != nil {
		return err
	}
	if err := lockProc(); err != nil {
		r.End()
		return err
	}
	return nil
}

// furnish makes the mounts of the room.
func (r *Room) furnish() error {
	// Later mounts of the machine arrive in the room, and nothing goes the other way.
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return &os.PathError{Op: "make a copy of the mounts at", Path: "/", Err: err}
	}
	// The copies are taken first: they keep the flags that their file systems have on the machine, and may lie below what is hidden.
	trees := make([]int, len(r.Mounts))
	defer func() {
		for _, tree := range trees {
			if tree > 0 {
				_ = syscall.Close(tree)
			}
		}
	}()
	for i := range r.Mounts {
		var err error
		if trees[i], err = r.Mounts[i].take(); err != nil {
			return err
		}
	}
	if err := readOnly(atFDCWD, "/", true); err != nil {
		return &os.PathError{Op: "make read-only", Path: "/", Err: err}
	}
	var hidden []*Mount
	for i := range r.Mounts {
		m := &r.Mounts[i]
		placed, err := m.place(trees[i])
		if err != nil {
			return err
		}
		if placed && m.Kind == Hidden {
			hidden = append(hidden, m)
		}
	}
	for _, m := range hidden {
		if err := m.seal(); err != nil {
			return err
		}
	}
	// The working directory of the thread is a place in the tree below the mounts.
	return os.NewSyscallError("chdir", syscall.Chdir("/"))
}

// lockProc makes the settings of the machine in the /proc of the room read-only, and hides its memory.
func lockProc() error {
	for _, name := range [...]string{"bus", "fs", "irq", "sys", "sysrq-trigger"} {
		m := Mount{Kind: Bound, From: "/proc/" + name, To: "/proc/" + name, Optional: true}
		if err := m.make(); err != nil {
			return err
		}
	}
	for _, name := range [...]string{"kcore", "keys", "timer_list"} {
		m := Mount{Kind: Bound, From: "/dev/null", To: "/proc/" + name, Optional: true}
		if err := m.make(); err != nil {
			return err
		}
	}
	return nil
}

// Pid returns the first process of the room, until it was reaped; 0: there is none.
func (r *Room) Pid() int {
	if r.first == nil {
		return 0
	}
	return r.first.alive()
}

// Leave lets the first process end when the room has no orphan. With it ends the room: the kernel kills what is left, and reports
// the end when nothing is.
func (r *Room) Leave() {
	if r.first != nil {
		r.first.leave()
	}
}

// Kill kills all processes in the room.
func (r *Room) Kill() {
	if pid := r.Pid(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Reaped is called when the first process was waited for.
func (r *Room) Reaped() { r.first.close() }

// End kills all processes in the room and waits for them, if the first one was not reaped.
func (r *Room) End() {
	pid := r.Pid()
	if pid == 0 {
		return
	}
	r.Kill()
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			break
		}
	}
	r.first.close()
}

// In runs a function with the rights of a user on files, and in the view of the file system that the room has, if there is one.
func (r *Room) In(u *User, f func()) error {
	if r.first == nil {
		return u.As(f)
	}
	mounts, err := r.first.view()
	if err != nil {
		return err
	}
	defer syscall.Close(mounts)
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := join(mounts)
		if err == nil && !u.None() {
			err = u.become()
		}
		if err == nil {
			f()
		}
		result <- err
	}()
	return <-result
}

// join moves the calling thread into a mount namespace.
func join(mounts int) error {
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if _, _, errno := syscall.RawSyscall(sysSetns, uintptr(mounts), syscall.CLONE_NEWNS, 0); errno != 0 {
		return os.NewSyscallError("setns", errno)
	}
	return nil
}

// Text returns a mount as a text.
func (m *Mount) Text() string {
	flags := 0
	if m.Write {
		flags |= 1
	}
	if m.Optional {
		flags |= 2
	}
	return strconv.Itoa(int(m.Kind)) + "\x00" + strconv.Itoa(flags) + "\x00" + m.From + "\x00" + m.To + "\x00" + m.Options
}

// Parse parses a result of Text.
func (m *Mount) Parse(text string) bool {
	var fields [5]string
	for i := range fields {
		more := false
		if fields[i], text, more = cut(text, 0); more != (i < len(fields)-1) {
			return false
		}
	}
	kind, err := strconv.Atoi(fields[0])
	flags, wrong := strconv.Atoi(fields[1])
	*m = Mount{Kind: Kind(kind), Write: flags&1 != 0, Optional: flags&2 != 0, From: fields[2], To: fields[3], Options: fields[4]}
	return err == nil && wrong == nil && kind >= 0 && m.Kind < kinds && flags >= 0 && flags < 4 && isAbsolute(m.To)
}

func isAbsolute(path string) bool { return len(path) > 0 && path[0] == '/' }

// pointer returns the bytes of a text for the kernel.
func pointer(text string) unsafe.Pointer {
	bytes, err := syscall.BytePtrFromString(text)
	if err != nil {
		bytes = new(byte) // a path with a zero is none
	}
	return unsafe.Pointer(bytes)
}
