// Package coreverbs has what is done to Cores, one file a verb.
package coreverbs

import (
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// verbs are the commands of this package; each file adds its own.
var verbs kernel.Verbs

// Verbs lists the commands.
func Verbs() []kernel.CommandDef { return verbs }

// Result is the Core after the command, or why nothing was done.
type Result struct {
	Core    *cores.Core
	Refusal *kernel.Refusal
	// Duplicate: an earlier command with the same key made it.
	Duplicate bool
}

func save(tx *kernel.Tx, c *cores.Core) {
	c.UpdatedAt, c.Revision = tx.Now(), tx.Index()
	cores.Put(cores.Of(tx.State), c)
	tell(tx, c)
}

func tell(tx *kernel.Tx, c *cores.Core) {
	event.Emit(tx, event.Event{Topic: event.TopicCore, Tenant: c.Tenant, Name: c.ID.String()})
}
