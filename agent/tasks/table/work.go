package table

import (
	"time"

	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Work carries out the decisions of a Table. No method may block, wait for a disk, or call the Table before it has
// returned.
type Work interface {
	// Fetch brings the inputs of a task to the node; Table.Fetched follows. cancel ends it early. needed is false if
	// the task has no inputs.
	Fetch(t *Task, spec *v1.TaskSpec) (cancel func(), needed bool)
	// Launch starts the shim of a task. It calls Table.StillDue right before; Attached, Runs and Ends follow.
	Launch(t *Task, spec *v1.TaskSpec, inputs any)
	// Attach finds the shim of a task that an earlier agent launched; Attached, Runs, Ends or Again follows.
	Attach(t *Task)
	// Stop tells a shim to stop its task.
	Stop(t *Task, process Process, request shim.StopRequest)
	// Refuse writes the end of a task without a shim to disk, so that the next agent does not launch it; Table.Ends
	// follows.
	Refuse(t *Task, exit shim.Exit)
	// Disown records on disk that a task is no longer wanted; Table.Disowned follows.
	Disown(t *Task)
	// Fault records on disk that a GPU of a task failed; Table.Stop follows.
	Fault(t *Task, why string)
	// Recall reads a task's end from disk; Table.Recalled follows.
	Recall(t *Task)
	// OnAcknowledged returns a function to call, on any goroutine, when the coordinators have acknowledged the end of a
	// task. It writes that to disk and calls Table.Forget, before the coordinators' next message is handled.
	OnAcknowledged(t *Task) func()
	// Release releases the inputs of a task.
	Release(id taskid.ID)
	// MayRemove reports whether the directory of an ended task may be removed; Remove removes directories.
	MayRemove(id taskid.ID, endedAt, now time.Time) bool
	Remove(ids []taskid.ID)
	// Restart asks for a new session, in which all orders are sent again.
	Restart()
	// Idle is called once, after StopAll, when all tasks have ended.
	Idle()
}

// Outbox takes reports.
type Outbox interface {
	Add(reports ...*outbox.Report)
	Drop(task *v1.TaskRef)
}

// Leases decides how long tasks may live, and when they may be launched.
type Leases interface {
	Want(id taskid.ID, spec *v1.TaskSpec)
	Drop(id taskid.ID)
	Looked()
	MayLaunch(id taskid.ID, spec *v1.TaskSpec) (ok bool, why string)
}

// GPUs reports which GPUs have failed.
type GPUs interface {
	// Enabled is called with the time at which the node was last enabled, from the orders.
	Enabled(at uint64)
	// Fault returns the problem of the first of the GPUs that failed within a time range; a zero time leaves its end open.
	Fault(gpus []int32, from, to time.Time) string
}

// Notes counts launches and ends for metrics.
type Notes interface {
	Launched(took time.Duration)
	Ended(how string)
}
