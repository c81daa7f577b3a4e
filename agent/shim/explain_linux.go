package shim

import (
	"strconv"
	"syscall"

	"github.com/mindcoordinator/mind/agent/shim/explain"
)

// explain adds to the exit why the command failed, as far as that is known.
func (s *shim) explain() {
	if s.exit.Code == 0 || s.exit.Failure == FailureNodeLost {
		return
	}
	if s.group.OOMKills() > 0 || (s.exit.Signal == int(syscall.SIGKILL) && !s.plan.termed && explain.KernelKilled(s.exit.Pid, s.exit.Started)) {
		s.exit.Failure = FailureOOM
		s.exit.Message = s.outOfMemory()
		return
	}
	tail := s.output.Errors()
	if line := explain.FullGPU(tail); line != "" && !s.exit.Stopped {
		s.exit.Failure, s.exit.Message = FailureOOM, line
		return
	}
	if s.exit.Signal != 0 {
		s.exit.Message = "killed by signal " + strconv.Itoa(s.exit.Signal) + " (" + syscall.Signal(s.exit.Signal).String() + ")"
	} else {
		s.exit.Message = "exited with code " + strconv.Itoa(s.exit.Code)
	}
	if s.group.RefusedForks() > 0 {
		s.exit.Message += "; it had as many processes and threads as a job may have (" + strconv.FormatInt(s.group.Value("pids.max"), 10) + ")"
	}
	if last := explain.LastLine(tail); last != "" {
		s.exit.Message += "; last line of stderr: " + explain.Clipped(last)
	}
}

// outOfMemory says why the kernel killed the task, and how to get more.
func (s *shim) outOfMemory() string {
	text := "killed by the kernel: out of memory on node " + s.spec.Node
	limit, peak := s.group.Value("memory.max"), s.group.Value("memory.peak")
	if limit == 0 {
		return text
	}
	text += ": it may use " + mebibytes(limit)
	if peak > 0 {
		text += ", and used up to " + mebibytes(peak)
	}
	return text + "; ask for more with --memory (memory_mb)"
}

func mebibytes(n int64) string { return strconv.FormatInt((n+1<<19)>>20, 10) + " MiB" }
