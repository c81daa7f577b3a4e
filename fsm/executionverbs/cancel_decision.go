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

// CancelDecision takes a question back: the step that asked fails; a job at a gate stays paused until somebody resumes it.
type CancelDecision struct {
	Decision ident.Decision `cbor:"1,keyasint,omitempty"`
	Tenant   string         `cbor:"2,keyasint,omitempty"`
	Reason   string         `cbor:"3,keyasint,omitempty"`
	Actor    *access.Actor  `cbor:"4,keyasint,omitempty"`
	// User, As and Any say who the caller is, as in ResolveDecision.
	User string   `cbor:"5,keyasint,omitempty"`
	As   []string `cbor:"6,keyasint,omitempty"`
	Any  bool     `cbor:"7,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (CancelDecision) CommandNumber() uint16 { return 69 }

// AtLevel implements kernel.Leveled.
func (c CancelDecision) AtLevel(at level.Level) (kernel.Command, error) {
	return c, cores.Gate.Check(at)
}

func init() { verbs.Add(lifecycle.Verb("CancelDecision", cancelDecision, auditCancelDecision)) }

func cancelDecision(tx *lifecycle.Tx, c *CancelDecision) DecisionResult {
	old, r := pending(tx, c.Decision, c.Tenant)
	if r != nil {
		return DecisionResult{Refusal: r}
	}
	if !mayDecide(old, c.User, c.As, c.Any) {
		return DecisionResult{Refusal: kernel.Refuse(kernel.CodePermissionDenied, reason.NotAssignee, old.ID, old.Assignee)}
	}
	d := *old
	d.Status = executions.DecisionCanceled
	executions.SaveDecision(tx.Entry, &d)
	if d.Job != 0 {
		tx.SayAtGate(d.Job, reason.New(reason.GateTakenBack, d.ID))
		return DecisionResult{Decision: &d}
	}
	executions.Wake(tx.Entry, d.Execution, d.Wait, func(w *executions.Wait) {
		w.Err = &executions.Failure{Code: "CANCELED", Message: clip("the decision " + d.ID.String() + " was canceled: " + c.Reason)}
	})
	return DecisionResult{Decision: &d}
}

var auditDecisionCancel = access.DefineAction(85, "decision.cancel", access.AboutJobs)

func auditCancelDecision(tx *kernel.Tx, c *CancelDecision, result DecisionResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditDecisionCancel, Object: c.Decision.String(), Message: reason.Text(c.Reason)}, result.Refusal)
}
