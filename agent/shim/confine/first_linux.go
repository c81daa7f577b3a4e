package confine

import (
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// first is the first process of a PID namespace. It mounts /proc, and reaps orphans. The kernel kills all processes of the
// namespace when it ends, and reports its end when none is left.
//
// It is a copy of this process that starts no other program: the start of one costs more than all the rest of a room. It must not
// come back to the Go runtime, whose other threads it does not have: see serve.
type first struct {
	mu     sync.Mutex
	pid    int // 0: it was reaped
	line   int // a socket; its end lets the process end; negative: closed
	mounts int // of its mount namespace
}

// orders is all that the first process needs. It is made before, because the process can allocate nothing.
type orders struct {
	line                  uintptr
	proc, dir, kind, name unsafe.Pointer
	ignore, all, was      unsafe.Pointer
}

// sigaction is the kernel's structure.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

const (
	prSetPdeathsig = 1
	prSetDumpable  = 4
	prSetName      = 15
	sysCloseRange  = 436
	sigIgnore      = 1
	sigSetmask     = 2
	sizeOfMask     = 8
)

// startFirst starts the first process of the PID namespace in which the calling thread starts processes, and waits until it has
// mounted /proc. It takes over the descriptor of the mount namespace.
func startFirst(mounts int) (_ *first, err error) {
	f := &first{line: -1, mounts: mounts}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	var all, was uint64 = ^uint64(0), 0
	name := [16]byte{'m', 'i', 'n', 'd', '-', 'i', 'n', 'i', 't'}
	o := &orders{
		line: uintptr(ends[1]), proc: pointer("proc"), dir: pointer("/proc"), kind: pointer("proc"), name: unsafe.Pointer(&name),
		ignore: unsafe.Pointer(&sigaction{handler: sigIgnore}), all: unsafe.Pointer(&all), was: unsafe.Pointer(&was),
	}
	pid, errno := copyProcess(o)
	_ = syscall.Close(ends[1])
	f.line = ends[0]
	if errno != 0 {
		return nil, os.NewSyscallError("clone", errno)
	}
	f.pid = int(pid)
	var answer [8]byte
	n := 0
	for {
		n, err = syscall.Read(f.line, answer[:])
		if err != syscall.EINTR {
			break
		}
	}
	failed := syscall.Errno(answer[0])
	if n == len(answer) && failed == 0 {
		return f, nil
	}
	(&Room{first: f}).End()
	if failed != 0 {
		return nil, &os.PathError{Op: "mount", Path: "/proc", Err: failed}
	}
	return nil, os.NewSyscallError("start the first process of a namespace", syscall.ESRCH)
}

// alive returns the process, until it was reaped.
func (f *first) alive() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pid
}

// view returns a descriptor of the mount namespace, for the caller to close.
func (f *first) view() (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mounts < 0 {
		return -1, os.NewSyscallError("enter the namespaces of the task", syscall.ESRCH)
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(f.mounts), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return -1, os.NewSyscallError("fcntl", errno)
	}
	return int(fd), nil
}

// close is called when the process was reaped.
func (f *first) close() {
	f.leave()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pid = 0
	if f.mounts >= 0 {
		_ = syscall.Close(f.mounts)
		f.mounts = -1
	}
}

// leave lets the process end when it has no children.
func (f *first) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.line >= 0 {
		_ = syscall.Close(f.line)
		f.line = -1
	}
}

// copyProcess makes a copy of this process with the calling thread alone. Signals are blocked meanwhile, so that the copy never runs
// the handlers of the Go runtime.
//
//go:nosplit
//go:norace
func copyProcess(o *orders) (pid uintptr, errno syscall.Errno) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(o.all), uintptr(o.was), sizeOfMask, 0, 0)
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 && errno == 0 {
		serve(o)
	}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(o.was), 0, sizeOfMask, 0, 0)
	return pid, errno
}

// serve is the life of the first process. It makes system calls, and nothing else: no allocation, no growth of the stack, no lock, no
// function that is not marked as this one. It never returns.
//
//go:nosplit
//go:norace
func serve(o *orders) {
	// Its end is the end of the task, so the task ends with the shim.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetPdeathsig, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetDumpable, 0, 0, 0, 0, 0)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetName, uintptr(o.name), 0, 0, 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
	// With it, the kernel reaps orphans itself.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(o.ignore), 0, sizeOfMask, 0, 0)
	_, _, failed := syscall.RawSyscall6(syscall.SYS_MOUNT, uintptr(o.proc), uintptr(o.dir), uintptr(o.kind),
		syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, 0, 0)
	// Files of the shim that stayed open here would stay open for all.
	if o.line > 0 {
		_, _, _ = syscall.RawSyscall(sysCloseRange, 0, o.line-1, 0)
	}
	_, _, _ = syscall.RawSyscall(sysCloseRange, o.line+1, ^uintptr(0)>>1, 0)
	answer := uint64(failed)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, o.line, uintptr(unsafe.Pointer(&answer)), unsafe.Sizeof(answer))
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, o.line, uintptr(unsafe.Pointer(&answer)), unsafe.Sizeof(answer))
		if errno != syscall.EINTR && (errno != 0 || n == 0) {
			break
		}
	}
	// As the kernel reaps them, this returns when there are none.
	for {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), 0, 0, 0, 0, 0); errno != 0 && errno != syscall.EINTR {
			break
		}
	}
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
