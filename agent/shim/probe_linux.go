package shim

import (
	"os"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/agent/shim/descent"
	"github.com/mindcoordinator/mind/agent/shim/probe"
)

// prober starts and kills the probe of a task.
type prober struct {
	*shim
	attr *syscall.ProcAttr
}

// lacks runs the probe of the task, if it has one, in the place of the command.
func (s *shim) lacks(command *syscall.ProcAttr) *failure {
	if len(s.spec.Probe) == 0 {
		return nil
	}
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return s.unfit("open /dev/null", err)
	}
	defer syscall.Close(null)
	patience := probe.Patience
	if s.lease.StopAt != 0 { // the lease is renewed only when the command runs
		patience = min(patience, time.Duration(s.lease.StopAt-Boottime())/2)
	}
	attr, sys := *command, *command.Sys
	attr.Sys, attr.Files = &sys, []uintptr{uintptr(null), uintptr(null), uintptr(null)}
	fault, clean := probe.Run(prober{s, &attr}, patience)
	switch {
	case !clean:
		s.group.Kill()
		s.spec.Room.Kill()
		return &failure{FailureLaunch, "cannot end the python3 of the job on node " + s.spec.Node + ", which looks for modules: it does not react to SIGKILL"}
	case s.lease.Past(Boottime()):
		return &failure{FailureNodeLost, "not started by its own node: " + s.lease.silence()}
	case fault >= 0 && fault < len(s.spec.Lacks):
		return &failure{FailureLaunch, s.spec.Lacks[fault]}
	}
	return nil
}

func (p prober) Start() (pid int, err error) {
	return p.forkExec(p.spec.Probe[0], p.spec.Probe, p.attr)
}

// Kill kills the processes one by one: some kernels kill whatever is started in a control group after its file cgroup.kill was
// written.
func (p prober) Kill() (left []int) {
	for _, pid := range append(descent.Of(os.Getpid()), p.group.Processes()...) {
		if pid != p.spec.Room.Pid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			left = append(left, pid)
		}
	}
	return left
}
