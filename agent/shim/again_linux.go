package shim

import (
	"os"
	"syscall"
	"time"
)

// mostTasks limits the tasks of one process, and thereby the effects of any leak.
const mostTasks = 1000

// again offers a shim whose task has ended to its agent for another task: most of the cost of a short task is the start
// of the process around it. It returns no agent if the process should end: the agent has disconnected, another agent
// has asked for the task, or the task was unusual in some way. All state that one task could pass to the next is reset
// here: the directory and its lock, the sockets, the alarm, the protection from the kernel's OOM killer. Signals that
// the shim ignores are not inherited: the runtime resets, in each child, all signals that it handles itself.
func (s *shim) again(parent string) (name string, agent *caller) {
	if !s.whole || s.exit.Pid == 0 || s.forker.wanted != nil || s.used+1 >= mostTasks || parent == "" || parent[0] != '/' {
		return "", nil
	}
	if agent = s.door.close(); agent == nil {
		return "", nil
	}
	s.lease.close()
	// The exit was written before this, so a process that finds the lock free also finds the exit.
	_ = syscall.Close(s.lock)
	if os.Chdir("/") != nil || !unprotect() {
		return "", nil
	}
	_ = agent.file.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := agent.file.WriteString("idle\n"); err != nil {
		return "", nil
	}
	name, ok := <-s.door.next
	if !ok {
		return "", nil
	}
	return name, agent
}

const oomScore = "/proc/self/oom_score_adj"

// inherited is the OOM adjustment that the shim inherited from the agent; empty: it was not changed.
var inherited []byte

// protect makes the kernel's OOM killer prefer the process that uses the memory to the shim. It is called after the
// command was started, because the command would inherit it.
func protect() {
	before, err := os.ReadFile(oomScore)
	if err == nil && os.WriteFile(oomScore, []byte("-500"), 0) == nil {
		inherited = before
	}
}

func unprotect() bool {
	return len(inherited) == 0 || os.WriteFile(oomScore, inherited, 0) == nil
}
