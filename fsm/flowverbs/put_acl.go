package flowverbs

import (
	"errors"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// PutACL gives a user or a group a right on a flow, or changes one that is there. A principal that has one is not given another.
type PutACL struct {
	Flow          ident.Flow          `cbor:"1,keyasint,omitempty"`
	Caller        flows.Caller        `cbor:"2,keyasint,omitempty"`
	PrincipalType flows.PrincipalType `cbor:"3,keyasint,omitempty"`
	Principal     string              `cbor:"4,keyasint,omitempty"`
	Right         flows.Right         `cbor:"5,keyasint,omitempty"`
	Actor         *access.Actor       `cbor:"6,keyasint,omitempty"`
	// ACL is the right to change, without a principal; 0: a new one.
	ACL ident.FlowACL `cbor:"7,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PutACL) CommandNumber() uint16 { return 79 }

// AtLevel implements kernel.Leveled.
func (c PutACL) AtLevel(at level.Level) (kernel.Command, error) { return c, flows.Gate.Check(at) }

func init() { verbs.Add(kernel.Define("PutACL", putACL, auditPutACL)) }

func putACL(tx *kernel.Tx, c *PutACL) Result {
	switch {
	case c.ACL != 0:
		return changeACL(tx, c)
	case c.Principal == "" || c.PrincipalType != flows.User && c.PrincipalType != flows.Group:
		return bad(errors.New("a right is of a user or of a group, and names it"))
	case !c.Right.Valid():
		return bad(errors.New("a right is view, edit, deploy or admin"))
	}
	if err := checkTexts(maxText, c.Principal, c.Caller.User); err != nil {
		return bad(err)
	}
	f, refusal := reach(tx, c.Flow, c.Caller, flows.ToAdmin)
	if refusal != nil {
		return refused(refusal)
	}
	if c.PrincipalType == flows.User && c.Principal == f.Owner {
		return Result{Flow: f, Refusal: kernel.Refuse(kernel.CodeAlreadyExists, reason.FlowOwnerHasAll, c.Principal)}
	}
	l := flows.Of(tx.State)
	n := 0
	for a := range l.FlowACLs(f.ID) {
		if a.PrincipalType == c.PrincipalType && a.Principal == c.Principal {
			return Result{Flow: f, Refusal: kernel.Refuse(kernel.CodeAlreadyExists, reason.FlowRightThere, c.PrincipalType.String(), c.Principal, a.Right.String(), a.ID)}
		}
		n++
	}
	id, ok := tx.Mint()
	if !ok || n >= flows.MaxACLs {
		return Result{Flow: f, Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyFlowRights, int64(flows.MaxACLs))}
	}
	row := &flows.ACL{
		ID: ident.FlowACL(id), Flow: f.ID, PrincipalType: c.PrincipalType, Principal: c.Principal, Right: c.Right,
		GrantedBy: c.Caller.User, GrantedAt: tx.Now(),
	}
	flows.PutACL(l, row)
	return Result{Flow: f, ACL: row}
}

// changeACL gives the principal of a right another one.
func changeACL(tx *kernel.Tx, c *PutACL) Result {
	if !c.Right.Valid() {
		return bad(errors.New("a right is view, edit, deploy or admin"))
	}
	if err := checkTexts(maxText, c.Caller.User); err != nil {
		return bad(err)
	}
	f, refusal := reach(tx, c.Flow, c.Caller, flows.ToAdmin)
	if refusal != nil {
		return refused(refusal)
	}
	l := flows.Of(tx.State)
	old, ok := l.FlowACL(f.ID, c.ACL)
	if !ok {
		return Result{Flow: f, Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoFlowRight, c.ACL)}
	}
	if old.Right == c.Right {
		return Result{Flow: f, ACL: old, Same: true}
	}
	row := *old
	row.Right, row.GrantedBy, row.GrantedAt = c.Right, c.Caller.User, tx.Now()
	flows.PutACL(l, &row)
	return Result{Flow: f, ACL: &row}
}

var auditFlowGrant = access.DefineAction(95, "flow.grant", access.AboutOperation)

func auditPutACL(tx *kernel.Tx, c *PutACL, result Result) {
	if result.Same {
		return
	}
	kind, principal := c.PrincipalType, c.Principal
	if a := result.ACL; a != nil {
		kind, principal = a.PrincipalType, a.Principal
	}
	object := nameOf(c.Flow, result) + " to " + kind.String() + " " + principal + ": " + c.Right.String()
	if c.ACL != 0 && result.ACL == nil {
		object = nameOf(c.Flow, result) + ", right " + c.ACL.String() + ": " + c.Right.String()
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditFlowGrant, Object: object}, result.Refusal)
}
