package checkpointverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// DeleteCheckpoint takes a checkpoint of a tenant out of the state. The files are the user's, and stay; the copy in the archive
// is removed.
type DeleteCheckpoint struct {
	Tenant string           `cbor:"1,keyasint,omitempty"`
	ID     ident.Checkpoint `cbor:"2,keyasint,omitempty"`
	Actor  *access.Actor    `cbor:"3,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (DeleteCheckpoint) CommandNumber() uint16 { return 18 }

func init() { verbs.Add(lifecycle.Verb("DeleteCheckpoint", deleteCheckpoint, auditDeleteCheckpoint)) }

func deleteCheckpoint(tx *lifecycle.Tx, c *DeleteCheckpoint) CheckpointResult {
	have, refusal := ownCheckpoint(tx, c.Tenant, c.ID)
	if refusal != nil {
		return CheckpointResult{Refusal: refusal}
	}
	if j, ok := tx.Job(have.Job); ok && !j.Terminal() && tx.Newest(j) == c.ID {
		return CheckpointResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CheckpointNeeded, j.ID, j.State, c.ID)}
	}
	tx.Discard(have)
	tx.EmitCheckpoint(have, nil)
	tx.Unrefer(have.Job, c.ID)
	return CheckpointResult{Checkpoint: have}
}

func auditDeleteCheckpoint(tx *kernel.Tx, c *DeleteCheckpoint, result CheckpointResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditCheckpointDelete, Object: c.ID.String()}, result.Refusal)
}

// AuditCheckpointDelete is the action in the audit log.
var AuditCheckpointDelete = access.DefineAction(6, "checkpoint.delete", access.AboutJobs)
