package shim

import (
	"os"
	"slices"
	"syscall"
	"unsafe"

	"github.com/mindcoordinator/mind/agent/shim/descent"
)

// end is the end of a process, or of the last one.
type end struct {
	pid    int
	status syscall.WaitStatus
	usage  syscall.Rusage
	// main: the process was the command. last: the shim has no child left, so the task has no process.
	main, last bool
}

// reap collects the ends of all processes that are or become the shim's children. Orphans of a process become the shim's
// children before its own end is reported, so once the command was reaped, "no child" is final.
func reap(command int) <-chan end {
	ends := make(chan end)
	go func() {
		for {
			var e end
			var err error
			for {
				e.pid, err = syscall.Wait4(-1, &e.status, 0, &e.usage)
				if err != syscall.EINTR {
					break
				}
			}
			if err != nil {
				ends <- end{last: true}
				return
			}
			e.main = e.pid == command
			if e.main && noChildren() {
				e.last = true
				ends <- e
				return
			}
			ends <- e
		}
	}()
	return ends
}

// noChildren checks without reaping a child.
func noChildren() bool {
	const pAll, wNoWait = 0, 0x01000000
	var info [128]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pAll, 0, uintptr(unsafe.Pointer(&info)),
			syscall.WEXITED|syscall.WNOHANG|wNoWait, 0, 0)
		if errno != syscall.EINTR {
			return errno == syscall.ECHILD
		}
	}
}

// signalAll sends the signals to every process of the task: the descendants of the shim, in any session, process group and
// control group, and the others in the control group of the task. Each gets them once: programs take a second SIGTERM for
// a wish to end at once.
func (s *shim) signalAll(signals ...syscall.Signal) {
	all := descent.Of(os.Getpid())
	for _, pid := range s.group.Processes() {
		if !slices.Contains(all, pid) {
			all = append(all, pid)
		}
	}
	for _, pid := range all {
		for _, signal := range signals {
			_ = syscall.Kill(pid, signal)
		}
	}
}

// ignoreSignals makes the shim ignore signals for the agent, or for its whole process group. Package os/signal could do
// it, but would initialize many other packages (see the package comment). It is called after the command was started,
// because the command would inherit it.
func ignoreSignals() {
	const sigIgn = 1
	disposition := struct {
		handler, flags, restorer uintptr
		mask                     uint64
	}{handler: sigIgn}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE} {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&disposition)), 0, 8, 0, 0)
	}
}
