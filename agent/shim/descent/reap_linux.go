package descent

import (
	"syscall"
	"unsafe"
)

// End is the end of a process, or of the last one.
type End struct {
	Pid    int
	Status syscall.WaitStatus
	Usage  syscall.Rusage
	// Main: the process was the command. Last: no child is left, so the task has no process.
	Main, Last bool
}

// Reap collects the ends of all processes that are or become children of this one. Orphans of a process become its
// children before its own end is reported, so once the command was reaped, "no child" is final.
func Reap(command int) <-chan End {
	ends := make(chan End)
	go func() {
		for {
			var e End
			var err error
			for {
				e.Pid, err = syscall.Wait4(-1, &e.Status, 0, &e.Usage)
				if err != syscall.EINTR {
					break
				}
			}
			if err != nil {
				ends <- End{Last: true}
				return
			}
			e.Main = e.Pid == command
			if e.Main && NoChildren() {
				e.Last = true
				ends <- e
				return
			}
			ends <- e
		}
	}()
	return ends
}

// NoChildren reports whether this process has none. It checks without reaping a child.
func NoChildren() bool {
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
