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
	// Queued: waits for its turn to be launched.
	Queued State = iota
	// Launching: its shim is being started or found.
	Launching
	Running
	// Ended: no process of it is left.
	Ended
)

// Task is what the Table knows about one task. It belongs to the Table, except ID and Has, which do not change once it is
// being launched.
type Task struct {
	ID taskid.ID
	// Has is the GPUs that it has once it is being launched.
	Has holding.Holding

	state State
	// spec is kept until the task is launched.
	spec *v1.TaskSpec
	// inputs is what Fetched brought; cancelFetch is set while they are being fetched.
	inputs      any
	fetched     bool
	cancelFetch func()
	// waitsFor is why it was not launched at its turn.
	waitsFor string
	// process is set while it has a shim.
	process Process
	// stop is the last stop request, sent to the shim or waiting for it.
	stop *shim.StopRequest
	// slot: it counts as being launched.
	slot    bool
	wanted  bool
	pid     int
	acked   bool
	endedAt time.Time
	// exit is kept until the coordinators know it.
	exit *shim.Exit
	// disowned: it is no longer wanted. disowning: that is being written to disk, and the shim is told after that.
	disowned, disowning bool
	// faulted: one of its GPUs failed.
	faulted bool
	since   time.Time // when the agent took it up
}

// Left is a task that an earlier agent left.
type Left struct {
	ID  taskid.ID
	Has holding.Holding
	// Ended: since EndedAt no process of it is left, and the coordinators know, or are told when they order it.
	Ended   bool
	EndedAt time.Time
	// Disowned: it was no longer wanted.
	Disowned bool
}

// Process is the handle of a task's shim.
type Process interface {
	Stop(shim.StopRequest) error
}

// Info is a task as others see it.
type Info struct {
	ID      taskid.ID
	State   State
	Pid     int
	EndedAt time.Time // zero until it has ended
	Has     holding.Holding
	// Acked: the coordinators know its end.
	Acked bool
}

func (t *Task) info() Info {
	return Info{ID: t.ID, State: t.state, Pid: t.pid, EndedAt: t.endedAt, Has: t.Has, Acked: t.acked}
}

// leastTerm is what a task has at least from SIGTERM to SIGKILL when its time limit is reached.
const leastTerm = 2 * time.Second

// stopRequest translates an order. A task that may save its state gets a notice; a task whose work is not needed does not.
func stopRequest(reason v1.StopReason_Value, grace time.Duration) shim.StopRequest {
	grace = max(0, grace)
	switch reason {
	case v1.StopReason_TIME_LIMIT:
		// The grace period is what is left of the time limit: it may be nothing.
		return shim.StopRequest{Notice: grace, Term: max(leastTerm, min(grace, lease.MaxTerm))}
	case v1.StopReason_PAUSE, v1.StopReason_PREEMPT, v1.StopReason_DRAIN:
		return shim.StopRequest{Notice: grace, Term: min(grace, lease.MaxTerm)}
	case v1.StopReason_CANCEL:
		return shim.StopRequest{Term: grace}
	}
	return shim.StopRequest{Term: min(grace, lease.MaxTerm)}
}
