package table

import (
	"strings"

	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// FaultText is why a task ends whose GPU failed.
func FaultText(node, why string) string { return why + " (node " + node + ")" }

// GivenBack is the exit of a task that was not launched. It is none of its doing, and costs it no retry: the coordinators find
// it another place, which is not this one, as they are told of the GPU first.
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

// endedBody is the report of how a task ended.
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
		// Whoever ordered the stop knows what comes of it. When nobody did, the agent was stopped and took its tasks along:
		// whatever the program's exit code says, it was cut off.
		body.ErrorType = v1.ErrorType_DRAINED
		if body.ErrorMessage == "" {
			body.ErrorMessage = "stopped by its node"
		}
	case exit.Code > 0:
		body.ErrorType = v1.ErrorType_EXIT_NONZERO
	}
	return &v1.Report{Body: &v1.Report_Ended{Ended: body}}
}
