package coordinators

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// RaiseLevel raises the feature level. The proposer has made sure that every voter and every learner supports the level.
// A replica that does not support it stops here.
type RaiseLevel struct {
	To level.Level `cbor:"1,keyasint,omitempty"`
	// VotersIndex is that of the configuration whose members were asked. With another one in force nothing is raised.
	VotersIndex uint64        `cbor:"2,keyasint,omitempty"`
	Actor       *access.Actor `cbor:"3,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (RaiseLevel) CommandNumber() uint16 { return 26 }

// Applicable implements kernel.Demanding.
func (c *RaiseLevel) Applicable(supported level.Range) error {
	if c.To > supported.Newest {
		return fmt.Errorf("the cluster was raised to feature level %d, and this version of mind supports levels up to %d: start a newer version", c.To, supported.Newest)
	}
	return nil
}

// RaiseLevelResult is the level that is in force now, or why nothing was done.
type RaiseLevelResult struct {
	Level   level.Level
	Refusal *kernel.Refusal
}

func raise(tx *kernel.Tx, c *RaiseLevel) RaiseLevelResult {
	switch now := tx.Level(); {
	case c.To <= now:
		return RaiseLevelResult{Level: now, Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.LevelReached, uint8(now))}
	case c.VotersIndex != tx.VotersIndex():
		return RaiseLevelResult{Level: now, Refusal: kernel.Refuse(kernel.CodeAborted, reason.MembershipChanged)}
	}
	tx.Raise(c.To)
	return RaiseLevelResult{Level: c.To}
}

// AuditLevelRaise is the action of a raise in the audit log.
var AuditLevelRaise = access.DefineAction(23, "level.raise", access.AboutOperation)

func auditRaise(tx *kernel.Tx, c *RaiseLevel, result RaiseLevelResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditLevelRaise, Object: fmt.Sprint(c.To)}, result.Refusal)
}
