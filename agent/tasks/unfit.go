package tasks

import (
	"errors"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/api/wait"
)

// unfitExit is how a task ends that the node could not start: the coordinators give it to another node, and that costs the
// job nothing. They hear of the node first (package leader), so it does not get the task again.
func (w *work) unfitExit(why string) shim.Exit {
	return shim.Exit{Code: -1, Failure: shim.FailureUnfit, Message: "node " + w.cfg.Node + " cannot start tasks: " + why}
}

// unfit gives a task back if the node is known to be unable to start it.
func (f *follower) unfit() bool {
	if f.cfg.Fitness == nil {
		return false
	}
	why := f.cfg.Fitness.Why()
	if why == "" {
		return false
	}
	// If the coordinators missed that, the task is ordered again, slowly.
	wait.For(f.door.Context(), givenBackPause)
	f.neverRan(f.unfitExit(why))
	return true
}

// notLaunched is how a task ends whose shim could not be started.
func (f *follower) notLaunched(err error) shim.Exit {
	if f.cfg.Fitness != nil {
		return f.unfitExit(f.cfg.Fitness.Probe(err))
	}
	return shim.Exit{Code: -1, Failure: shim.FailureLaunch, Message: "node " + f.cfg.Node + " could not launch the task: " + err.Error()}
}

// blameNode probes the node when a task ended without having run, or its data was not fetched. If the node is unfit, that is
// why.
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
