package flowverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

// DeleteFlow deletes a flow: nobody sees it any more. Its content is kept for a while. The Cores that it was deployed to go on.
type DeleteFlow struct {
	Flow   ident.Flow    `cbor:"1,keyasint,omitempty"`
	Caller flows.Caller  `cbor:"2,keyasint,omitempty"`
	Actor  *access.Actor `cbor:"3,keyasint,omitempty"`
	// BasedOn is the version that the flow has to be at; empty: any.
	BasedOn string `cbor:"4,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (DeleteFlow) CommandNumber() uint16 { return 78 }

// AtLevel implements kernel.Leveled.
func (c DeleteFlow) AtLevel(at level.Level) (kernel.Command, error) { return c, flows.Gate.Check(at) }

func init() { verbs.Add(kernel.Define("DeleteFlow", deleteFlow, auditDeleteFlow)) }

func deleteFlow(tx *kernel.Tx, c *DeleteFlow) Result {
	if err := checkTexts(maxText, c.BasedOn); err != nil {
		return bad(err)
	}
	old, refusal := reach(tx, c.Flow, c.Caller, flows.ToAdmin)
	if refusal != nil {
		return refused(refusal)
	}
	if r := changedSince(old, c.BasedOn); r != nil {
		return Result{Flow: old, Refusal: r}
	}
	row := *old
	row.DeletedAt, row.Key, row.Fingerprint = max(tx.Now(), 1), "", 0
	save(tx, &row)
	return Result{Flow: &row}
}

var auditFlowDelete = access.DefineAction(94, "flow.delete", access.AboutOperation)

func auditDeleteFlow(tx *kernel.Tx, c *DeleteFlow, result Result) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditFlowDelete, Object: nameOf(c.Flow, result)}, result.Refusal)
}
