package coreverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// ControlCore moves a Core to another state: people start, stop, restart, pause and resume it, and the leader says that it is ready,
// has halted or has failed.
type ControlCore struct {
	ID ident.Core `cbor:"1,keyasint,omitempty"`
	// Tenant must own it; empty: not checked, for the leader.
	Tenant string       `cbor:"2,keyasint,omitempty"`
	Action cores.Action `cbor:"3,keyasint,omitempty"`
	// Reason says why, of a Fail or a Crash.
	Reason reason.Reason `cbor:"4,keyasint,omitempty"`
	Actor  *access.Actor `cbor:"5,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (ControlCore) CommandNumber() uint16 { return 62 }

// AtLevel implements kernel.Leveled.
func (c ControlCore) AtLevel(at level.Level) (kernel.Command, error) { return c, cores.Gate.Check(at) }

func init() { verbs.Add(kernel.Define("ControlCore", controlCore, auditControlCore)) }

func controlCore(tx *kernel.Tx, c *ControlCore) Result {
	old, ok := cores.Of(tx.State).Core(c.ID)
	if !ok || c.Tenant != "" && old.Tenant != c.Tenant {
		return Result{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoCore, c.ID)}
	}
	to, legal := old.Status.After(c.Action)
	if !legal {
		return Result{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CoreCannot, old.Slug, actionWords[c.Action], old.Status.String())}
	}
	row := *old
	row.Status, row.Reason = to, c.Reason.Clip(maxReason)
	if to == cores.Running {
		row.StartedAt = tx.Now()
	}
	save(tx, &row)
	return Result{Core: &row}
}

const maxReason = 2048

// actionWords completes the sentence "the Core cannot be".
var actionWords = map[cores.Action]string{
	cores.Start: "started", cores.Stop: "stopped", cores.Restart: "restarted", cores.Pause: "paused", cores.Resume: "resumed",
	cores.Ready: "made ready", cores.Halted: "halted", cores.Fail: "failed", cores.Crash: "crashed",
}

var auditOf = map[cores.Action]access.AuditAction{
	cores.Start:   access.DefineAction(72, "core.start", access.AboutOperation),
	cores.Stop:    access.DefineAction(73, "core.stop", access.AboutOperation),
	cores.Restart: access.DefineAction(74, "core.restart", access.AboutOperation),
	cores.Pause:   access.DefineAction(75, "core.pause", access.AboutOperation),
	cores.Resume:  access.DefineAction(76, "core.resume", access.AboutOperation),
}

func auditControlCore(tx *kernel.Tx, c *ControlCore, result Result) {
	action, ok := auditOf[c.Action]
	if !ok {
		return
	}
	object := c.ID.String()
	if result.Core != nil {
		object = result.Core.Slug
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: action, Object: object}, result.Refusal)
}
