package agent

import (
	"context"
	"time"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
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

// endFaulty ends the tasks on GPUs that failed. It runs on the owner's goroutine.
func (a *agent) endFaulty() {
	for _, t := range a.tasks {
		if t.state == ended || t.faulted || len(t.has.gpus) == 0 {
			continue
		}
		why := a.gpus.fault(t.has.gpus, time.Time{}, time.Time{})
		if why == "" {
			continue
		}
		t.faulted = true
		if t.state == queued {
			a.neverRan(t, a.givenBack(why))
			continue
		}
		a.log.Error("stopping a task whose GPU failed", "job", t.key.job, "attempt", t.key.attempt, "rank", t.key.rank, "gpu", why)
		a.minders.Go(func() {
			a.markFault(t.dir, why)
			a.post(func() { a.stop(t, shim.StopRequest{Term: faultTerm}) })
		})
	}
}

func (a *agent) faultText(why string) string { return why + " (node " + a.cfg.NodeID + ")" }

// givenBack is the exit of a task that was not launched. It is none of its doing, and costs it no retry: the coordinators find
// it another place, which is not this one, as they are told of the GPU first.
func (a *agent) givenBack(why string) shim.Exit {
	return shim.Exit{Code: -1, Stopped: true, Message: "not launched: " + a.faultText(why)}
}

func (a *agent) markFault(dir, why string) {
	if err := taskfile.Replace(dir, faultFile, []byte(a.faultText(why))); err != nil {
		// The end is told as it would be without.
		a.log.Error("cannot write down why a task is stopped", "dir", dir, "error", err)
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
// agent does. It runs beside the owner.
func (a *agent) explain(t *task, exit shim.Exit) shim.Exit {
	if exit.Pid == 0 || exit.Code == 0 && !exit.Stopped || len(t.has.gpus) == 0 {
		return blame(t.dir, exit)
	}
	if !exit.Stopped {
		ctx, cancel := context.WithTimeout(context.Background(), emptyPatience)
		defer cancel()
		if !a.simulated {
			sleep(ctx, faultDelay)
		}
		_ = a.gpus.look(ctx)
	}
	// It may have failed while the task was being launched.
	from, to := time.Unix(0, exit.Started).Add(-emptyPatience), time.Unix(0, exit.Ended).Add(emptyPatience)
	if why := a.gpus.fault(t.has.gpus, from, to); why != "" {
		a.markFault(t.dir, why)
	}
	return blame(t.dir, exit)
}

// fit tells whether the GPUs of a task are well and empty; if not, how the task ends without having been launched. It runs
// beside the owner, and may take as long as a GPU needs to become empty.
func (a *agent) fit(t *task) (refused *shim.Exit) {
	if len(t.has.gpus) == 0 {
		return nil
	}
	why := a.gpus.fault(t.has.gpus, time.Time{}, time.Time{})
	if why == "" {
		why = a.verifyEmpty(t.key, t.has)
	}
	if why == "" {
		return nil
	}
	a.log.Error("a task is not launched: its GPUs are not fit for it", "job", t.key.job, "attempt", t.key.attempt, "rank", t.key.rank, "why", why)
	// Should the coordinators have missed that, the task goes round in a slow circle.
	bounded, cancel := context.WithTimeout(context.Background(), givenBackPause)
	defer cancel()
	select {
	case <-bounded.Done():
	case <-a.over:
	}
	exit := a.givenBack(why)
	return &exit
}
