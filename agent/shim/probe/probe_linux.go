// Package probe runs a program that finds out whether a node has what the command of a task needs.
//
// Contract: the program is one that the job has chosen. So it runs as the command will, with the user, behind the walls and in
// the control group of the task, and no process of it is left when Run returns.
package probe

import (
	"syscall"
	"time"
)

// Found is the first exit code that means something: a probe that exits with Found+i has found its fault number i.
const Found = 93

// Patience limits how long a probe may take, and how long its processes may take to end when they are killed.
const Patience = 10 * time.Second

// Task is the task, of which nothing runs but the probe.
type Task interface {
	// Start starts the probe.
	Start() (pid int, err error)
	// Kill kills all processes of the task, and returns those that were there.
	Kill() []int
}

// Run runs a probe for at most so long. It returns the number of its fault; -1: it has found none, could not start or took too
// long, and the command shows what is wrong. clean is false if a process of the probe could not be killed.
func Run(of Task, patience time.Duration) (fault int, clean bool) {
	pid, err := of.Start()
	if err != nil {
		return -1, true
	}
	begin, pause := time.Now(), time.Millisecond
	var status syscall.WaitStatus
	for ; ; time.Sleep(pause) {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		if got == pid || err != nil && err != syscall.EINTR {
			break
		}
		if ran := time.Since(begin); ran > patience+Patience {
			return -1, false // something keeps its end from this process
		} else if ran > patience {
			of.Kill()
		}
		pause = min(pause+pause/4, 10*time.Millisecond)
	}
	if fault = -1; status.Exited() && status.ExitStatus() >= Found {
		fault = status.ExitStatus() - Found
	}
	for begin = time.Now(); ; time.Sleep(time.Millisecond) {
		left := of.Kill()
		if len(left) == 0 {
			return fault, true
		}
		if time.Since(begin) > Patience {
			return fault, false
		}
		for _, pid := range left { // orphans of the probe are children of this process
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}
