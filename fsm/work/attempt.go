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

// BroughtDownBy says whether what ended another task of the attempt, and began at some time, is why the first one failed:
// when a node or a GPU fails under a rank, the others exit, and are heard of first.
func (j *Job) BroughtDownBy(e *Ending, began int64) bool {
	if j.Ending == nil || !j.Ending.follows() || j.Stop != v1.StopReason_GANG {
		return false
	}
	if e.ErrorType != v1.ErrorType_NODE_LOST && e.ErrorType != v1.ErrorType_GPU_FAULT {
		return false
	}
	return began <= j.Tasks[j.Ending.Rank].EndedAt+BlameWithin
}

// follows says whether a task may end like this because another one of its attempt is gone: its process exits; or it was not
// started, because its agent could not agree with that of rank 0 on a checkpoint.
func (e *Ending) follows() bool {
	return e.ErrorType == v1.ErrorType_EXIT_NONZERO || e.ErrorType == v1.ErrorType_DATA_FETCH && e.ExitCode == nil
}
