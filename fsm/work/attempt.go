package work

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/reason"
)

func TaskNodes(tasks []Task) []string {
	if len(tasks) == 0 {
		return nil
	}
	nodes := make([]string, len(tasks))
	for i := range tasks {
		nodes[i] = tasks[i].Node
	}
	return nodes
}

// Ran says whether the task's process is or was alive.
func (t *Task) Ran() bool {
	return t.State == v1.TaskState_RUNNING || t.State == v1.TaskState_ENDED && t.ExitCode != nil
}

func AllEnded(tasks []Task) bool {
	for i := range tasks {
		if tasks[i].State != v1.TaskState_ENDED {
			return false
		}
	}
	return true
}

// AllSucceeded says whether every task has ended with exit code 0.
func AllSucceeded(tasks []Task) bool {
	for i := range tasks {
		if t := &tasks[i]; t.State != v1.TaskState_ENDED || t.ExitCode == nil || *t.ExitCode != 0 {
			return false
		}
	}
	return true
}

// Why says what went wrong.
func (e *Ending) Why() reason.Reason {
	switch {
	case e.ErrorMessage != "":
		return reason.New(reason.EndedSaying, e.ErrorType, e.ErrorMessage)
	case e.ExitCode != nil:
		return reason.New(reason.EndedWithCode, e.ErrorType, *e.ExitCode)
	}
	return reason.New(reason.Ended, e.ErrorType)
}
