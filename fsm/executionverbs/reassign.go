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

// ReassignDecision asks somebody else.
type ReassignDecision struct {
	Decision ident.Decision `cbor:"1,keyasint,omitempty"`
	Tenant   string         `cbor:"2,keyasint,omitempty"`
	Assignee string         `cbor:"3,keyasint,omitempty"`
	Actor    *access.Actor  `cbor:"4,keyasint,omitempty"`
	// User, As and Any say who the caller is, as in ResolveDecision.
	User string   `cbor:"5,keyasint,omitempty"`
	As   []string `cbor:"6,keyasint,omitempty"`
	Any  bool     `cbor:"7,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (ReassignDecision) CommandNumber() uint16 { return 68 }

// AtLevel implements kernel.Leveled.
func (c ReassignDecision) AtLevel(at level.Level) (kernel.Command, error) {
	return c, cores.Gate.Check(at)
}

func init() { verbs.Add(lifecycle.Verb("ReassignDecision", reassignDecision, auditReassignDecision)) }

func reassignDecision(tx *lifecycle.Tx, c *ReassignDecision) DecisionResult {
	old, r := pending(tx, c.Decision, c.Tenant)
	if r != nil {
		return DecisionResult{Refusal: r}
	}
	if !mayDecide(old, c.User, c.As, c.Any) {
		return DecisionResult{Refusal: kernel.Refuse(kernel.CodePermissionDenied, reason.NotAssignee, old.ID, old.Assignee)}
	}
	d := *old
	d.Assignee = clip(c.Assignee)
	d.AssigneeType, _ = executions.ParseAssignee(d.Assignee)
	executions.SaveDecision(tx.Entry, &d)
	return DecisionResult{Decision: &d}
}

var auditDecisionReassign = access.DefineAction(84, "decision.reassign", access.AboutJobs)

func auditReassignDecision(tx *kernel.Tx, c *ReassignDecision, result DecisionResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditDecisionReassign, Object: c.Decision.String(), Message: reason.Text(c.Assignee)}, result.Refusal)
}
