package descent

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// Of returns the descendants of a process.
func Of(root int) []int {
	children := childrenOfAll()
	var found []int
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		found = append(found, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

// ToNotice returns the processes that get the notice of a stop: the command, if it handles the signal. If not, the
// signal would kill the command, and with it the processes that do handle it: torchrun does not, but its workers save
// their state. So those processes are signaled instead, but not their children: a forked process inherits a handler
// that is not meant for it. If no process handles the signal, the command gets it, and ends at once.
func ToNotice(command int, signal syscall.Signal) []int {
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

// Session returns the session of a process; 0: it is gone. It reads the sixth field of /proc/PID/stat.
func Session(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 4 {
		return 0
	}
	session, _ := strconv.Atoi(string(fields[3]))
	return session
}
