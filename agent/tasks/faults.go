package tasks

import (
	"context"
	"time"

	"github.com/mindcoordinator/mind/agent/gpus"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/agent/tasks/table"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
)

const (
	// faultFile, in a task directory, says that a GPU of the task failed while it ran. It is written before the task is
	// stopped for it, so that whoever reads its end knows why.
	faultFile = "gpu-fault"
	// maxFaultText bounds it.
	maxFaultText = 64 << 10
	// faultTerm is the time from SIGTERM to SIGKILL of a task whose GPU failed: enough to say something, no more.
	faultTerm = 2 * time.Second
	// faultDelay is how much later than the end of the program the driver may tell of the error that ended it.
	faultDelay = 300 * time.Millisecond
	// givenBackPause is how long a task is kept that cannot be launched.
	givenBackPause = time.Second
)

// failureGPU is the name of the ErrorType.
var failureGPU = v1.ErrorType_GPU_FAULT.String()

func (c *Config) markFault(dir, why string) {
	if err := taskfile.Replace(dir, faultFile, []byte(table.FaultText(c.Node, why))); err != nil {
		// The end is told as it would be without.
		c.Log.Error("cannot write down why a task is stopped", "dir", dir, "error", err)
	}
}

// blame returns the exit with the fault in it that ended the task. Work that came to its end is not spoiled by a fault.
func blame(dir string, exit shim.Exit) shim.Exit {
	if exit.Code == 0 && !exit.Stopped && exit.Failure == "" {
		return exit
	}
	if why, err := taskfile.Read(dir, faultFile, maxFaultText); err == nil && len(why) > 0 {
		exit.Failure, exit.Message = failureGPU, string(why)
	}
	return exit
}

// explain finds out whether a GPU failed under a task that ended badly by itself: the program often notices before the
// agent does.
func (f *follower) explain(exit shim.Exit) shim.Exit {
	has := f.task.Has.GPUs
	if exit.Pid == 0 || exit.Code == 0 && !exit.Stopped || len(has) == 0 {
		return blame(f.dir, exit)
	}
	if !exit.Stopped {
		ctx, cancel := context.WithTimeout(context.Background(), gpus.Patience)
		defer cancel()
		if !f.cfg.Simulated {
			wait.For(ctx, faultDelay)
		}
		_ = f.cfg.GPUs.Look(ctx)
	}
	// It may have failed while the task was being launched.
	from, to := time.Unix(0, exit.Started).Add(-gpus.Patience), time.Unix(0, exit.Ended).Add(gpus.Patience)
	if why := f.cfg.GPUs.Fault(has, from, to); why != "" {
		f.cfg.markFault(f.dir, why)
	}
	return blame(f.dir, exit)
}

// fit tells whether the GPUs of the task are well and empty; if not, how the task ends without having been launched. It may take
// as long as a GPU needs to become empty.
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
	f.cfg.Log.Error("a task is not launched: its GPUs are not fit for it", "job", t.ID.Job, "attempt", t.ID.Attempt, "rank", t.ID.Rank, "why", why)
	// Should the coordinators have missed that, the task goes round in a slow circle.
	wait.For(f.door.Context(), givenBackPause)
	exit := table.GivenBack(f.cfg.Node, why)
	return &exit
}
