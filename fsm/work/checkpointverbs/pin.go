package checkpointverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// PinCheckpoint keeps a checkpoint of a tenant whatever its job's retention says, or ends that.
type PinCheckpoint struct {
	Tenant string           `cbor:"1,keyasint,omitempty"`
	ID     ident.Checkpoint `cbor:"2,keyasint,omitempty"`
	// Off: it is not to be kept any longer.
	Off   bool          `cbor:"3,keyasint,omitempty"`
	Actor *access.Actor `cbor:"4,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PinCheckpoint) CommandNumber() uint16 { return 28 }

func init() { verbs.Add(lifecycle.Verb("PinCheckpoint", pinCheckpoint, auditPinCheckpoint)) }

// CheckpointResult is the checkpoint as it is after the command, or was before it was deleted; or why nothing was done.
type CheckpointResult struct {
	Checkpoint *checkpoints.Checkpoint
	Refusal    *kernel.Refusal
}

// ownCheckpoint finds a checkpoint of a tenant.
func ownCheckpoint(tx *lifecycle.Tx, tenant string, id ident.Checkpoint) (*checkpoints.Checkpoint, *kernel.Refusal) {
	c, ok := tx.Checkpoint(id)
	if !ok || c.Tenant != tenant {
		return nil, kernel.Refuse(kernel.CodeNotFound, reason.NoCheckpoint, id)
	}
	return c, nil
}

func pinCheckpoint(tx *lifecycle.Tx, c *PinCheckpoint) CheckpointResult {
	have, refusal := ownCheckpoint(tx, c.Tenant, c.ID)
	switch {
	case refusal != nil:
		return CheckpointResult{Refusal: refusal}
	case have.Expired() && !c.Off:
		return CheckpointResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CheckpointExpired, c.ID, have.Reason)}
	case have.Pinned == !c.Off:
		return CheckpointResult{Checkpoint: have}
	}
	changed := *have
	changed.Pinned = !c.Off
	tx.ChangeCheckpoint(&changed)
	tx.Reconsider(have.Job)
	return CheckpointResult{Checkpoint: &changed}
}

func auditPinCheckpoint(tx *kernel.Tx, c *PinCheckpoint, result CheckpointResult) {
	action := AuditCheckpointPin
	if c.Off {
		action = AuditCheckpointUnpin
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: action, Object: c.ID.String()}, result.Refusal)
}

// AuditCheckpointPin is the action in the audit log.
var AuditCheckpointPin = access.DefineAction(24, "checkpoint.pin", access.AboutJobs)

// AuditCheckpointUnpin is the action in the audit log.
var AuditCheckpointUnpin = access.DefineAction(25, "checkpoint.unpin", access.AboutJobs)
