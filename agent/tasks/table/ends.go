package table

import (
	"strings"

	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// FaultText returns the error message of a task whose GPU failed.
func FaultText(node, why string) string { return why + " (node " + node + ")" }

// GivenBack returns the exit of a task that was not launched because of its GPUs. It is not the job's fault and does
// not use up a retry: the coordinators place the task on other GPUs, because the failed GPU was reported first.
func GivenBack(node, why string) shim.Exit {
	return shim.Exit{Code: -1, Stopped: true, Message: "not launched: " + FaultText(node, why)}
}

func outcome(exit shim.Exit) string {
	switch {
	case exit.Failure != "":
		return exit.Failure
	case exit.Stopped:
		return "stopped"
	case exit.Code == 0:
		return "succeeded"
	}
	return "EXIT_NONZERO"
}

// endedBody returns the report of a task's end.
func endedBody(exit shim.Exit) *v1.Report {
	body := &v1.TaskEnded{ErrorMessage: strings.ToValidUTF8(exit.Message, "\uFFFD")}
	if exit.Code >= 0 {
		code := int32(exit.Code)
		body.ExitCode = &code
	}
	switch {
	case exit.Failure != shim.FailureNone:
		body.ErrorType = v1.ErrorType_Value(v1.ErrorType_Value_value[exit.Failure])
		if body.ErrorType == v1.ErrorType_UNSPECIFIED {
			body.ErrorType = v1.ErrorType_INTERNAL
		}
	case exit.Stopped:
		// If the coordinators ordered the stop, they decide what follows. Otherwise the agent was stopped with its tasks:
		// the task was interrupted, whatever its exit code is.
		body.ErrorType = v1.ErrorType_DRAINED
		if body.ErrorMessage == "" {
			body.ErrorMessage = "stopped by its node"
		}
	case exit.Code > 0:
		body.ErrorType = v1.ErrorType_EXIT_NONZERO
	}
	return &v1.Report{Body: &v1.Report_Ended{Ended: body}}
}
