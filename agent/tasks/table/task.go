package table

import (
	"time"

	"github.com/mindcoordinator/mind/agent/gpus/holding"
	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// State is the state of a task.
type State int

// States of a task.
const (
	// Queued: the task waits for its turn to be launched.
	Queued State = iota
	// Launching: the shim is being started or found.
	Launching
	Running
	// Ended: no process of the task is left.
	Ended
)

// Task is the Table's state of one task. It belongs to the Table, except ID and Has, which do not change after the
// launch has begun.
type Task struct {
	ID taskid.ID
	// Has are the GPUs that the task has from the beginning of its launch on.
	Has holding.Holding

	state State
	// spec is kept until the task is launched.
	spec *v1.TaskSpec
	// inputs are the fetched inputs; cancelFetch is set while they are being fetched.
	inputs      any
	fetched     bool
	cancelFetch func()
	// waitsFor is the reason why it was not launched at its turn.
	waitsFor string
	// process is set while the task has a shim.
	process Process
	// stop is the last stop request, sent to the shim or waiting for it.
	stop *shim.StopRequest
	// slot: the task counts towards MaxLaunches.
	slot    bool
	wanted  bool
	pid     int
	acked   bool
	endedAt time.Time
	// exit is kept until the coordinators know the end.
	exit *shim.Exit
	// disowned: the task is no longer wanted. disowning: that is being written to disk, and the shim is told after
	// that.
	disowned, disowning bool
	// faulted: one of the task's GPUs failed.
	faulted bool
	since   time.Time // when the agent accepted or adopted the task
}

// Left is a task that an earlier agent left.
type Left struct {
	ID  taskid.ID
	Has holding.Holding
	// Ended: since EndedAt no process of the task is left. The coordinators know its end, or it is reported when they
	// order the task.
	Ended   bool
	EndedAt time.Time
	// Disowned: the task was no longer wanted.
	Disowned bool
}

// Process is the handle of a task's shim.
type Process interface {
	Stop(shim.StopRequest) error
}

// Info describes a task to callers of the Table.
type Info struct {
	ID      taskid.ID
	State   State
	Pid     int
	EndedAt time.Time // zero until the task has ended
	Has     holding.Holding
	// Acked: the coordinators know its end.
	Acked bool
}

func (t *Task) info() Info {
	return Info{ID: t.ID, State: t.state, Pid: t.pid, EndedAt: t.endedAt, Has: t.Has, Acked: t.acked}
}

// leastTerm is the minimum time from SIGTERM to SIGKILL when the time limit of a task is reached.
const leastTerm = 2 * time.Second

// stopRequest returns the request for an order to stop. A task that may save its state gets a notice; a task whose work
// is not needed does not.
func stopRequest(reason v1.StopReason_Value, grace time.Duration) shim.StopRequest {
	grace = max(0, grace)
	switch reason {
	case v1.StopReason_TIME_LIMIT:
		// The grace period is the rest of the time limit, which may be nothing.
		return shim.StopRequest{Notice: grace, Term: max(leastTerm, min(grace, lease.MaxTerm))}
	case v1.StopReason_PAUSE, v1.StopReason_PREEMPT, v1.StopReason_DRAIN:
		return shim.StopRequest{Notice: grace, Term: min(grace, lease.MaxTerm)}
	case v1.StopReason_CANCEL:
		return shim.StopRequest{Term: grace}
	}
	return shim.StopRequest{Term: min(grace, lease.MaxTerm)}
}
