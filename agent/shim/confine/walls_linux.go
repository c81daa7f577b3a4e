package confine

import (
	"os"
	"syscall"
	"unsafe"
)

// Walls keep a task from paths and processes that are not its own. The kernel (Landlock) holds them for the command and all that
// it starts, under any user; nothing takes them away again.
type Walls struct {
	// Scope: the task can signal and trace only its own processes, connect only to its own abstract sockets, and gains no
	// privileges by running a program. As root it has the capabilities of a container, not those that reach the machine.
	Scope bool
	// Bounded: with Scope, root is held to quotas of disks.
	Bounded bool
	// Read are paths that the task may read and run, with all below them; Write those in which it may also write. Without
	// either, paths are as the user of the task may use them. A path that is not there is left out.
	Read, Write []string

	open []int // descriptors of these paths
}

// boundedScope is the text of a scope in which root is held to quotas. Programs that do not know it only adopt the task.
const boundedScope = "bounded"

// ScopeText returns a text that says how far processes are kept apart, if they are.
func (w *Walls) ScopeText() string {
	if w.Bounded {
		return boundedScope
	}
	return ""
}

// ParseScope parses a result of ScopeText.
func (w *Walls) ParseScope(text string) { w.Scope, w.Bounded = true, text == boundedScope }

// None reports whether there are no walls.
func (w *Walls) None() bool { return !w.Scope && len(w.Read) == 0 && len(w.Write) == 0 }

const (
	sysLandlockCreateRuleset = 444
	sysLandlockAddRule       = 445
	sysLandlockRestrictSelf  = 446

	landlockVersion     = 1
	landlockPathBeneath = 1

	prSetNoNewPrivs = 38
	oPath           = 0x200000
)

// Rights of Landlock: landlock.h.
const (
	accessExecute = 1 << iota
	accessWriteFile
	accessReadFile
	accessReadDir
	_ // remove a directory
	_ // remove a file
	accessMakeChar
	_ // make a directory
	_ // make a file
	_ // make a socket
	_ // make a FIFO
	accessMakeBlock
	_ // make a link
	accessRefer
	accessTruncate
	accessIoctlDev

	accessOfFirst = accessRefer - 1 // rights of the first version
	accessOfFile  = accessExecute | accessWriteFile | accessReadFile | accessTruncate | accessIoctlDev
	accessToRead  = accessExecute | accessReadFile | accessReadDir | accessIoctlDev
	accessDevices = accessMakeChar | accessMakeBlock
)

// LandlockVersion returns the version of Landlock that the kernel has; 0: none.
func LandlockVersion() int {
	version, _, errno := syscall.Syscall(sysLandlockCreateRuleset, 0, 0, landlockVersion)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// Enter puts the walls around the calling thread and all processes that it starts.
func (w *Walls) Enter() error {
	if w.None() {
		return nil
	}
	if w.Scope {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
			return os.NewSyscallError("prctl", errno)
		}
		if err := limitCapabilities(w.Bounded); err != nil {
			return err
		}
	}
	version := LandlockVersion()
	var rules struct{ fs, net, scoped uint64 }
	if len(w.Read) > 0 || len(w.Write) > 0 {
		rules.fs = accessOfFirst
		if version >= 2 {
			rules.fs |= accessRefer
		}
		if version >= 3 {
			rules.fs |= accessTruncate
		}
		if version >= 5 {
			rules.fs |= accessIoctlDev
		}
	}
	size := unsafe.Sizeof(rules)
	if version < 6 {
		size = unsafe.Sizeof(rules.fs)
	} else if w.Scope {
		const abstractSockets, signals = 1, 2
		rules.scoped = abstractSockets | signals
	}
	if w.Scope && rules.fs == 0 && version > 0 {
		// Only walls that hold something keep others from being traced. A task makes no devices.
		rules.fs = accessDevices
	}
	if rules.fs == 0 && rules.scoped == 0 {
		return nil
	}
	set, _, errno := syscall.Syscall(sysLandlockCreateRuleset, uintptr(unsafe.Pointer(&rules)), size, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_create_ruleset", errno)
	}
	defer syscall.Close(int(set))
	for _, path := range w.Read {
		if err := w.allow(int(set), path, rules.fs&accessToRead); err != nil {
			return err
		}
	}
	for _, path := range w.Write {
		if err := w.allow(int(set), path, rules.fs&^accessDevices); err != nil {
			return err
		}
	}
	if _, _, errno := syscall.Syscall(sysLandlockRestrictSelf, set, 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return nil
}

// kept are the capabilities that root keeps in a task, as bits: chown, dac_override, fowner, fsetid, kill, setgid, setuid,
// setpcap, net_bind_service, net_raw, ipc_lock, sys_chroot, sys_nice, sys_resource, audit_write, setfcap. They are those of a
// container of Docker, and what RDMA and the priorities of processes need, without mknod: not every kernel filters devices. Without sys_admin, sys_ptrace and perfmon no
// process of others can be looked into; without dac_read_search, files cannot be opened past the walls.
const kept = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<13 | 1<<14 | 1<<18 | 1<<23 | 1<<24 | 1<<29 | 1<<31

// limitCapabilities bounds the capabilities that a program of root gets. Other users get none anyway.
func limitCapabilities(bounded bool) error {
	const prCapBSetDrop, sysResource = 24, 24
	kept := uint64(kept)
	if bounded {
		kept &^= 1 << sysResource
	}
	for capability := range uintptr(64) {
		if kept&(1<<capability) != 0 {
			continue
		}
		switch _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prCapBSetDrop, capability, 0, 0, 0, 0); errno {
		case 0:
		case syscall.EINVAL: // there is no such capability
			return nil
		case syscall.EPERM: // neither root, nor able to become root
			return nil
		default:
			return os.NewSyscallError("prctl", errno)
		}
	}
	return nil
}

// allow adds rights to a path and all below it. It leads through no link: that could lead anywhere, and a task may have put it
// there since the agent looked. It is not asked what the path
// is: a file server that does not answer must not hold up tasks that do not need it.
func (w *Walls) allow(set int, path string, rights uint64) error {
	// As a directory first: that mounts a file system that is mounted at its first use. The rule would hold for the empty directory
	// below it otherwise.
	fd, dir, err := openPlace(path)
	if err == nil && !dir {
		rights &= accessOfFile
	}
	switch err {
	case nil:
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.EACCES, syscall.ENODEV, syscall.ESTALE, syscall.EIO, syscall.EHOSTDOWN, syscall.ETIMEDOUT:
		return nil
	default:
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	// It stays open as long as the shim has the task: a file system that is mounted at its first use is not unmounted meanwhile.
	w.open = append(w.open, fd)
	// The kernel's structure ends after the descriptor, without padding.
	rule := struct {
		rights uint64
		fd     int32
	}{rights, int32(fd)}
	switch _, _, errno := syscall.Syscall6(sysLandlockAddRule, uintptr(set), landlockPathBeneath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno {
	case 0, syscall.EBADFD: // EBADFD: it is no file of a file system that can have rules
		return nil
	default:
		return &os.PathError{Op: "landlock_add_rule", Path: path, Err: errno}
	}
}

// Close closes the paths.
func (w *Walls) Close() {
	for _, fd := range w.open {
		_ = syscall.Close(fd)
	}
	w.open = nil
}
