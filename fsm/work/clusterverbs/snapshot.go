package clusterverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// NoteSnapshot takes down that somebody saved the whole state to a file.
type NoteSnapshot struct {
	// By is the coordinator that wrote it.
	By    string        `cbor:"1,keyasint,omitempty"`
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (NoteSnapshot) CommandNumber() uint16 { return 25 }

func init() { verbs.Add(lifecycle.Verb("NoteSnapshot", noteSnapshot, auditNoteSnapshot)) }

// NoteSnapshotResult is empty: a NoteSnapshot is never refused.
type NoteSnapshotResult struct{}

func noteSnapshot(*lifecycle.Tx, *NoteSnapshot) NoteSnapshotResult { return NoteSnapshotResult{} }

func auditNoteSnapshot(tx *kernel.Tx, c *NoteSnapshot, _ NoteSnapshotResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditSnapshotSave, Object: c.By}, nil)
}

// AuditSnapshotSave is the action in the audit log.
var AuditSnapshotSave = access.DefineAction(22, "snapshot.save", access.AboutOperation)
