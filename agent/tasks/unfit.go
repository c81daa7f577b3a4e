package tasks

import (
	"errors"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/api/wait"
)

// unfitExit returns the exit of a task that the node could not start: the coordinators place it on another node, and
// the job loses no retry. That the node is unfit is reported first (package leader), so it does not get the task again.
func (w *work) unfitExit(why string) shim.Exit {
	return shim.Exit{Code: -1, Failure: shim.FailureUnfit, Message: "node " + w.cfg.Node + " cannot start tasks: " + why}
}

// unfit ends a task without a launch if the node is known to be unable to start it.
func (f *follower) unfit() bool {
	if f.cfg.Fitness == nil {
		return false
	}
	why := f.cfg.Fitness.Why()
	if why == "" {
		return false
	}
	// The pause limits how often the task is ordered again, if the coordinators do not know that the node is unfit.
	wait.For(f.door.Context(), givenBackPause)
	f.neverRan(f.unfitExit(why))
	return true
}

// notLaunched returns the exit of a task whose shim could not be started.
func (f *follower) notLaunched(err error) shim.Exit {
	if f.cfg.Fitness != nil {
		return f.unfitExit(f.cfg.Fitness.Probe(err))
	}
	return shim.Exit{Code: -1, Failure: shim.FailureLaunch, Message: "node " + f.cfg.Node + " could not launch the task: " + err.Error()}
}

// blameNode probes the node after a task ended without having run, or its data could not be fetched. If the node is
// unfit, that becomes the reason of the exit.
func (w *work) blameNode(exit shim.Exit) shim.Exit {
	if w.cfg.Fitness == nil || exit.Pid != 0 || exit.Stopped || exit.Failure == shim.FailureNodeLost || exit.Failure == shim.FailureCwdMissing {
		return exit
	}
	var failed error
	if exit.Failure == shim.FailureUnfit {
		failed = errors.New(exit.Message)
	}
	if why := w.cfg.Fitness.Probe(failed); why != "" {
		unfit := w.unfitExit(why)
		exit.Failure, exit.Message = unfit.Failure, unfit.Message
	}
	return exit
}
