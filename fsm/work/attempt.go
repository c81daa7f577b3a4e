package work

import (
	"fmt"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
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

// Text says in a few words what went wrong.
func (e *Ending) Text() string {
	switch {
	case e.ErrorMessage != "":
		return e.ErrorType.String() + ": " + e.ErrorMessage
	case e.ExitCode != nil:
		return fmt.Sprintf("%s: exit code %d", e.ErrorType, *e.ExitCode)
	}
	return e.ErrorType.String()
}
