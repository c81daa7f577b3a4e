package tasks

import (
	"context"
	"time"

	"github.com/mindcoordinator/mind/agent/gpus"
	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/agent/tasks/table"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
)

const (
	// faultFile, in a task directory, records that a GPU of the task failed while it ran. It is written before the task
	// is stopped because of that, so that the reason is known when the exit is read.
	faultFile = "gpu-fault"
	// maxFaultText limits the size of faultFile.
	maxFaultText = 64 << 10
	// faultTerm is the time from SIGTERM to SIGKILL of a task whose GPU failed: enough to log something, but no more.
	faultTerm = 2 * time.Second
	// faultDelay is how long after the end of the program the driver may report the error that ended it.
	faultDelay = 300 * time.Millisecond
	// givenBackPause is how long a task that cannot be launched is kept before its end is reported.
	givenBackPause = time.Second
)

// failureGPU is the name of the ErrorType of a GPU fault.
var failureGPU = v1.ErrorType_GPU_FAULT.String()

func (c *Config) markFault(dir, why string) {
	if err := taskfile.Replace(dir, faultFile, []byte(table.FaultText(c.Node, why))); err != nil {
		// Without the file the end is reported without the reason.
		c.Log.Error("cannot record why a task is stopped", "dir", dir, "error", err)
	}
}

// blame adds the fault that ended the task to its exit. A fault does not affect a task that finished its work.
func blame(dir string, exit shim.Exit) shim.Exit {
	if exit.Code == 0 && !exit.Stopped && exit.Failure == "" {
		return exit
	}
	if why, err := taskfile.Read(dir, faultFile, maxFaultText); err == nil && len(why) > 0 {
		exit.Failure, exit.Message = failureGPU, string(why)
	}
	return exit
}

// cause adds the known cause of a failure to the exit of a task: the error that its program reported, or a GPU that
// failed.
func (w *work) cause(dir string, exit shim.Exit) shim.Exit {
	return blame(dir, reported(dir, w.cfg.EventsBytes, exit))
}

// reported takes over the error that the program reported. If the kernel is known to have killed it, that cause stays.
func reported(dir string, most int64, exit shim.Exit) shim.Exit {
	if exit.Code <= 0 || exit.Stopped || exit.Failure != shim.FailureNone && exit.Failure != shim.FailureOOM {
		return exit
	}
	kind, message, ok := observe.ReportedError(dir, most)
	if ok && (exit.Failure == shim.FailureNone || exit.Failure == kind) {
		exit.Failure, exit.Message = kind, message
	}
	return exit
}

// explain checks whether a GPU of a task that ended with an error has failed: the program often notices that before the
// agent.
func (f *follower) explain(exit shim.Exit) shim.Exit {
	has := f.task.Has.GPUs
	if exit.Pid == 0 || exit.Code == 0 && !exit.Stopped || len(has) == 0 {
		return f.cause(f.dir, exit)
	}
	if !exit.Stopped {
		ctx, cancel := context.WithTimeout(context.Background(), gpus.Patience)
		defer cancel()
		if !f.cfg.Simulated {
			wait.For(ctx, faultDelay)
		}
		_ = f.cfg.GPUs.Look(ctx)
	}
	// The GPU may have failed while the task was being launched.
	from, to := time.Unix(0, exit.Started).Add(-gpus.Patience), time.Unix(0, exit.Ended).Add(gpus.Patience)
	if why := f.cfg.GPUs.Fault(has, from, to); why != "" {
		f.cfg.markFault(f.dir, why)
	}
	return f.cause(f.dir, exit)
}

// diskFull adds to the end of a task that its job has used up its quota. It is called before the directories of the task may be removed.
func (f *follower) diskFull(exit shim.Exit, dirs []string) shim.Exit {
	exit, full := f.cfg.Launcher.DiskFull(exit, dirs)
	if full {
		f.diskFulls.Inc()
	}
	return exit
}

// fit checks whether the GPUs of the task are healthy and empty; if not, it returns the exit of the task, which is not
// launched. It may take as long as a GPU needs to become empty.
func (f *follower) fit() (refused *shim.Exit) {
	t := f.task
	if len(t.Has.GPUs) == 0 {
		return nil
	}
	why := f.cfg.GPUs.Fault(t.Has.GPUs, time.Time{}, time.Time{})
	if why == "" {
		why = f.occupants.Verify(f.door.Context(), t.ID.Name(), t.Has)
	}
	if why == "" {
		return nil
	}
	f.cfg.Log.Error("a task is not launched: its GPUs are not ready for it", "job", t.ID.Job, "attempt", t.ID.Attempt, "rank", t.ID.Rank, "why", why)
	// The pause limits how often the task is ordered again, if the coordinators do not know about the GPU yet.
	wait.For(f.door.Context(), givenBackPause)
	exit := table.GivenBack(f.cfg.Node, why)
	return &exit
}
