package confine

import (
	"strconv"
	"syscall"
)

// sessionNice is the niceness of the sessions of tasks: a tenth of the weight of others, which is that of a task with one processor among
// control groups.
const sessionNice = "10"

// Lighten gives the session of a process less weight than the rest of the machine has. Where tasks have no controller of processors, the kernel
// shares these between sessions (autogroup): one of 500 processes that fork without end has stopped all others for seconds. The niceness of
// a single process counts only within its session. 0 is no process.
func Lighten(pid int) {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/autogroup", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return // the kernel has no such groups, or the process has ended
	}
	_, _ = syscall.Write(fd, []byte(sessionNice))
	_ = syscall.Close(fd)
}
