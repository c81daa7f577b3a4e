package executionverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// Action says what to do to an execution.
type Action uint8

// The actions.
const (
	// Cancel ends it: on_cancel and the compensations run first, unless Force.
	Cancel Action = iota + 1
	// Pause holds it where it is, and Resume lets it go on.
	Pause
	Resume
	// Retry has a failed one go on from a step.
	Retry
)

// ControlExecution is a user's will about one execution.
type ControlExecution struct {
	Execution ident.Execution `cbor:"1,keyasint,omitempty"`
	Tenant    string          `cbor:"2,keyasint,omitempty"`
	Action    Action          `cbor:"3,keyasint,omitempty"`
	Reason    string          `cbor:"4,keyasint,omitempty"`
	// Force (cancel) ends it at once.
	Force bool `cbor:"5,keyasint,omitempty"`
	// Frame (retry) is the frame to go on from, and Seq that of the frame from which it was made.
	Frame []byte        `cbor:"6,keyasint,omitempty"`
	Seq   uint64        `cbor:"7,keyasint,omitempty"`
	Actor *access.Actor `cbor:"8,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (ControlExecution) CommandNumber() uint16 { return 65 }

// AtLevel implements kernel.Leveled.
func (c ControlExecution) AtLevel(at level.Level) (kernel.Command, error) {
	return c, cores.Gate.Check(at)
}

func init() { verbs.Add(lifecycle.Verb("ControlExecution", controlExecution, auditControlExecution)) }

func controlExecution(tx *lifecycle.Tx, c *ControlExecution) Result {
	old, r := find(tx, c.Execution, c.Tenant)
	if r != nil {
		return Result{Refusal: r}
	}
	over := kernel.Refuse(kernel.CodeFailedPrecondition, reason.ExecutionOver, old.ID, old.Status.String())
	e := executions.Edit(old)
	switch c.Action {
	case Cancel:
		if old.Status.Over() {
			return Result{Refusal: over}
		}
		e.Cancel, e.Why = true, clip(c.Reason)
		executions.Save(tx.Entry, e)
		if c.Force {
			finish(tx, e.ID, executions.Canceled, nil, &executions.Failure{Code: "CANCELED", Message: clip(c.Reason)})
		}
	case Pause, Resume:
		if old.Status.Over() {
			return Result{Refusal: over}
		}
		e.Held = c.Action == Pause
		executions.Save(tx.Entry, e)
	case Retry:
		if old.Status != executions.Failed {
			return Result{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.ExecutionNotFailed, old.ID, old.Status.String())}
		}
		if c.Seq != old.Seq {
			return Result{Refusal: kernel.Refuse(kernel.CodeAborted, reason.ExecutionChanged, old.ID)}
		}
		if len(c.Frame) == 0 || len(c.Frame) > executions.MaxFrame {
			return Result{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadExecution, "its frame is too large")}
		}
		if _, there := cores.Of(tx.Entry.State).CoreVersion(old.Core, old.Version); !there {
			return Result{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.NoCore, old.Core)}
		}
		e.Status, e.Frame, e.Err, e.FinishedAt, e.More, e.Cancel, e.Canceling, e.Held = executions.Ready, c.Frame, nil, 0, true, false, false, false
		e.Seq++
		e.Retries++
		// The execution that called it has had its failure.
		e.ParentWait = 0
		executions.Save(tx.Entry, e)
	default:
		return Result{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownAction, uint8(c.Action))}
	}
	now, _ := bookOf(tx).Execution(old.ID)
	return Result{Execution: now}
}

var auditOfControl = map[Action]access.AuditAction{
	Cancel: access.DefineAction(78, "execution.cancel", access.AboutJobs),
	Pause:  access.DefineAction(79, "execution.pause", access.AboutJobs),
	Resume: access.DefineAction(80, "execution.resume", access.AboutJobs),
	Retry:  access.DefineAction(81, "execution.retry", access.AboutJobs),
}

func auditControlExecution(tx *kernel.Tx, c *ControlExecution, result Result) {
	if action, ok := auditOfControl[c.Action]; ok {
		access.Record(tx, c.Actor, access.AuditRecord{Action: action, Object: c.Execution.String(), Message: reason.Text(c.Reason)}, result.Refusal)
	}
}
