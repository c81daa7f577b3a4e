package table

import (
	"time"

	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Work does what a Table decides. No method may block, wait for a disk, or call the Table back before it has returned.
type Work interface {
	// Fetch brings the inputs of a task to the node; Table.Fetched follows. cancel ends it early. false: there are none.
	Fetch(t *Task, spec *v1.TaskSpec) (cancel func(), needed bool)
	// Launch starts the shim of a task; Table.StillDue is asked right before, and Attached, Runs and Ends follow.
	Launch(t *Task, spec *v1.TaskSpec, inputs any)
	// Attach finds the shim of a task that an earlier agent launched; Attached, Runs, Ends or Again follows.
	Attach(t *Task)
	// Stop tells a shim to stop its task.
	Stop(t *Task, process Process, request shim.StopRequest)
	// Refuse writes down the end of a task that has no shim, so that the next agent does not launch it; Table.Ends follows.
	Refuse(t *Task, exit shim.Exit)
	// Disown writes down that a task is not wanted any more; Table.Disowned follows.
	Disown(t *Task)
	// Fault writes down that a GPU of a task failed; Table.Stop follows.
	Fault(t *Task, why string)
	// Recall reads how a task ended; Table.Recalled follows.
	Recall(t *Task)
	// OnAcknowledged returns what is called, by any goroutine, when the coordinators know the end of a task: it is written down,
	// and Table.Forget follows, before what the coordinators send next.
	OnAcknowledged(t *Task) func()
	// Release lets go of the inputs of a task.
	Release(id taskid.ID)
	// MayRemove reports whether the directory of an ended task may go; Remove removes directories.
	MayRemove(id taskid.ID, endedAt, now time.Time) bool
	Remove(ids []taskid.ID)
	// Restart asks for a new session, which tells all orders anew.
	Restart()
	// Idle is called once, after StopAll, when no task is left that has not ended.
	Idle()
}

// Outbox takes reports.
type Outbox interface {
	Add(reports ...*outbox.Report)
	Drop(task *v1.TaskRef)
}

// Leases say how long tasks may live, and when they may be launched.
type Leases interface {
	Want(id taskid.ID, spec *v1.TaskSpec)
	Drop(id taskid.ID)
	Looked()
	MayLaunch(id taskid.ID, spec *v1.TaskSpec) (ok bool, why string)
}

// GPUs say which have failed.
type GPUs interface {
	// Enabled is told when the node was last enabled, as the orders say.
	Enabled(at uint64)
	// Fault is what is wrong with the first of the GPUs that failed within a time; the zero times leave it open.
	Fault(gpus []int32, from, to time.Time) string
}

// Notes are told what happens, for metrics.
type Notes interface {
	Launched(took time.Duration)
	Ended(how string)
}
