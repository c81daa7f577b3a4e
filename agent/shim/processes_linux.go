package shim

import (
	"os"
	"slices"
	"syscall"
	"unsafe"

	"github.com/mindcoordinator/mind/agent/shim/descent"
)

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
		if pid == s.spec.Room.Pid() {
			continue // its end is the end of all the others
		}
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
