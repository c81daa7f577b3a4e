package windowverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/windows"
)

// DeleteWindow ends a window, or calls it off.
type DeleteWindow struct {
	Name  string        `cbor:"1,keyasint,omitempty"`
	Kind  windows.Kind  `cbor:"2,keyasint,omitempty"`
	Actor *access.Actor `cbor:"3,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (DeleteWindow) CommandNumber() uint16 { return 47 }

func init() { verbs.Add(lifecycle.Verb("DeleteWindow", deleteWindow, auditDeleteWindow)) }

func deleteWindow(tx *lifecycle.Tx, c *DeleteWindow) WindowResult {
	w, ok := tx.Window(c.Name)
	if !ok || w.Kind != c.Kind {
		return WindowResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoWindow, c.Name)}
	}
	endWindow(tx, w)
	return WindowResult{}
}

// auditOfDelete has the action in the audit log of a deleted window, by kind.
var auditOfDelete = map[windows.Kind]access.AuditAction{
	windows.Maintenance: access.DefineAction(62, "maintenance.delete", access.AboutOperation),
	windows.Reservation: access.DefineAction(63, "reservation.delete", access.AboutOperation),
}

func auditDeleteWindow(tx *kernel.Tx, c *DeleteWindow, result WindowResult) {
	if action, ok := auditOfDelete[c.Kind]; ok {
		access.Record(tx, c.Actor, access.AuditRecord{Action: action, Object: c.Name}, result.Refusal)
	}
}
