package shim

import (
	"os"
	"syscall"
	"time"
)

// mostTasks bounds how many tasks one process has in its life: whatever it should leak ends with it.
const mostTasks = 1000

// again offers a shim whose task has ended to the agent that brought it, for another task: most of what a short task costs is
// the start of the process around it. It returns no agent when the process had better end: when the agent has gone or
// another one has asked for the task, or when anything of the task was not as it should be. What one task could hand down
// to the next is undone here: the directory and its lock, the sockets, the alarm, the protection from the kernel's killer.
// Signals that the shim ignores are not inherited: the runtime resets, in each child, all that it handles itself.
func (s *shim) again(parent string) (name string, agent *caller) {
	if !s.whole || s.exit.Pid == 0 || s.used+1 >= mostTasks || parent == "" || parent[0] != '/' {
		return "", nil
	}
	if agent = s.door.close(); agent == nil {
		return "", nil
	}
	s.lease.close()
	// Nobody who finds the lock free finds no exit: that was written first.
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

// inherited is the protection that the agent gave to its children; empty: it was not changed.
var inherited []byte

// protect: the kernel should rather kill what eats the memory. It is done after the command was started, which would
// inherit it.
func protect() {
	before, err := os.ReadFile(oomScore)
	if err == nil && os.WriteFile(oomScore, []byte("-500"), 0) == nil {
		inherited = before
	}
}

func unprotect() bool {
	return len(inherited) == 0 || os.WriteFile(oomScore, inherited, 0) == nil
}
