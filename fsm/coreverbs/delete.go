package coreverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// DeleteCore deletes a Core that does not run and has no execution that is not over.
type DeleteCore struct {
	ID     ident.Core    `cbor:"1,keyasint,omitempty"`
	Tenant string        `cbor:"2,keyasint,omitempty"`
	Actor  *access.Actor `cbor:"3,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (DeleteCore) CommandNumber() uint16 { return 61 }

// AtLevel implements kernel.Leveled.
func (c DeleteCore) AtLevel(at level.Level) (kernel.Command, error) { return c, cores.Gate.Check(at) }

func init() { verbs.Add(kernel.Define("DeleteCore", deleteCore, auditDeleteCore)) }

func deleteCore(tx *kernel.Tx, c *DeleteCore) Result {
	row, ok := cores.Of(tx.State).Core(c.ID)
	if !ok || row.Tenant != c.Tenant {
		return Result{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoCore, c.ID)}
	}
	if !row.Status.Removable() {
		return Result{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CoreCannot, row.Slug, "deleted", row.Status.String())}
	}
	for id := range executions.Of(tx.State).LiveExecutionsOf(row.ID) {
		return Result{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CoreBusy, row.Slug, id)}
	}
	cores.Remove(cores.Of(tx.State), row)
	tell(tx, row)
	return Result{Core: row}
}

var auditCoreDelete = access.DefineAction(71, "core.delete", access.AboutOperation)

func auditDeleteCore(tx *kernel.Tx, c *DeleteCore, result Result) {
	object := c.ID.String()
	if result.Core != nil {
		object = result.Core.Slug
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditCoreDelete, Object: object}, result.Refusal)
}
