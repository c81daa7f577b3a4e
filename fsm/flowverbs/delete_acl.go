package flowverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// DeleteACL takes a right on a flow away.
type DeleteACL struct {
	Flow   ident.Flow    `cbor:"1,keyasint,omitempty"`
	ACL    ident.FlowACL `cbor:"2,keyasint,omitempty"`
	Caller flows.Caller  `cbor:"3,keyasint,omitempty"`
	Actor  *access.Actor `cbor:"4,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (DeleteACL) CommandNumber() uint16 { return 80 }

// AtLevel implements kernel.Leveled.
func (c DeleteACL) AtLevel(at level.Level) (kernel.Command, error) { return c, flows.Gate.Check(at) }

func init() { verbs.Add(kernel.Define("DeleteACL", deleteACL, auditDeleteACL)) }

func deleteACL(tx *kernel.Tx, c *DeleteACL) Result {
	f, refusal := reach(tx, c.Flow, c.Caller, flows.ToAdmin)
	if refusal != nil {
		return refused(refusal)
	}
	l := flows.Of(tx.State)
	row, ok := l.FlowACL(f.ID, c.ACL)
	if !ok {
		return Result{Flow: f, Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoFlowRight, c.ACL)}
	}
	flows.RemoveACL(l, row)
	return Result{Flow: f, ACL: row}
}

var auditFlowRevoke = access.DefineAction(96, "flow.revoke", access.AboutOperation)

func auditDeleteACL(tx *kernel.Tx, c *DeleteACL, result Result) {
	object := nameOf(c.Flow, result)
	if a := result.ACL; a != nil {
		object += " from " + a.PrincipalType.String() + " " + a.Principal + ": " + a.Right.String()
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditFlowRevoke, Object: object}, result.Refusal)
}
