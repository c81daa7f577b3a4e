package tasks

import (
	"path/filepath"

	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/leader"
	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/agent/tasks/table"
)

// Processes starts tasks, and finds tasks that an earlier agent started. The contract is that of packages shim and runner:
// the task directory records the task, and its shim outlives the agent.
type Processes interface {
	Start(dir string, spec shim.Spec, prepare func(dir string) error) (Process, error)
	// Attach returns runner.ErrNotBegun in the same cases as runner.Attach.
	Attach(dir string) (Process, error)
	// Gone reports whether no shim runs in the directory.
	Gone(dir string) bool
	Close()
}

// Process is the agent's handle of one task.
type Process interface {
	Events() <-chan runner.Event
	Stop(shim.StopRequest) error
	// SetDeadline sets when the task must end; the enforcement must not need the agent.
	SetDeadline(shim.Deadline) error
	// Remark writes a remark into the task's log while the task runs.
	Remark(text string) error
	// Close detaches from the task, which continues.
	Close()
}

// Fitness reports whether the node can start tasks.
type Fitness interface {
	// Why returns the reason why the node cannot start tasks; "": it can.
	Why() string
	// Probe tests it at once, and returns Why. failed is the error of a failed launch, or nil: an error that only the
	// node can cause makes the node unfit even if the probe succeeds.
	Probe(failed error) string
}

// Leases decides how long tasks may live, and updates their shims.
type Leases interface {
	table.Leases
	// Adopt starts to keep the lease of a task that an earlier agent launched, Restore takes over the deadline that its
	// shim enforces.
	Adopt(id taskid.ID, of shim.Lease)
	Restore(id taskid.ID, told shim.Deadline)
	// Launched returns the deadline that the shim of a new task enforces.
	Launched(id taskid.ID) shim.Lease
	// Attach sets the shim that enforces a task's deadline; nil: none does any more.
	Attach(id taskid.ID, holder leader.Holder)
}

// Shims returns Processes that are real shims.
func Shims(starter *runner.Starter, groups *isolation.Isolation) Processes {
	return shims{starter, groups}
}

type shims struct {
	*runner.Starter
	groups *isolation.Isolation
}

func (s shims) Start(dir string, spec shim.Spec, prepare func(dir string) error) (Process, error) {
	handle, err := s.Starter.Start(dir, spec, prepare)
	if err != nil {
		if spec.Cgroup != "" {
			confine.RemoveGroup(spec.Cgroup) // prepare may have made it
		}
		return nil, err
	}
	return handle, nil
}

func (s shims) Attach(dir string) (Process, error) {
	handle, err := runner.Attach(dir, s.groups.Task(filepath.Base(dir)))
	if err != nil {
		return nil, err
	}
	return handle, nil
}

func (shims) Gone(dir string) bool { return runner.Gone(dir) }
