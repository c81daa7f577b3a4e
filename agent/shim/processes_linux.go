package shim

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"unsafe"
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
	all := descendants(os.Getpid())
	for _, pid := range s.group.processes() {
		if !contains(all, pid) {
			all = append(all, pid)
		}
	}
	for _, pid := range all {
		for _, signal := range signals {
			_ = syscall.Kill(pid, signal)
		}
	}
}

func contains(all []int, one int) bool {
	for _, n := range all {
		if n == one {
			return true
		}
	}
	return false
}

func descendants(root int) []int {
	children := childrenOfAll()
	var found []int
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		found = append(found, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

// toNotice returns the processes that get the notice of a stop: the command, if it handles the signal. If not, the
// signal would kill the command, and with it the processes that do handle it: torchrun does not, but its workers save
// their state. So those processes are signaled instead, but not their children: a forked process inherits a handler
// that is not meant for it. If no process handles the signal, the command gets it, and ends at once.
func toNotice(command int, signal syscall.Signal) []int {
	if handles(command, signal) {
		return []int{command}
	}
	children := childrenOfAll()
	var found []int
	for queue := children[command]; len(queue) > 0; queue = queue[1:] {
		if handles(queue[0], signal) {
			found = append(found, queue[0])
		} else {
			queue = append(queue, children[queue[0]]...)
		}
	}
	if len(found) == 0 {
		return []int{command}
	}
	return found
}

// handles reports whether a process has a handler for a signal.
func handles(pid int, signal syscall.Signal) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	const field = "\nSigCgt:"
	at := bytes.Index(status, []byte(field))
	if at < 0 {
		return false
	}
	words := bytes.Fields(status[at+len(field):])
	if len(words) == 0 {
		return false
	}
	mask, err := strconv.ParseUint(string(words[0]), 16, 64)
	return err == nil && mask&(1<<(uint(signal)-1)) != 0
}

func childrenOfAll() map[int][]int {
	children := make(map[int][]int)
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := proc.Readdirnames(-1)
	_ = proc.Close()
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if parent, ok := parentOf(name); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	return children
}

// parentOf reads the fourth field of /proc/PID/stat. The second field, in parentheses, may contain any characters.
func parentOf(pid string) (int, bool) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
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
