// Package nodeverbs has what is done to nodes, one file a verb.
//
// Guarantees. A task is LOST only by the votes of a majority of the voters in force, by an operator, or because its node
// says itself that it has restarted.
package nodeverbs

import "github.com/mindcoordinator/mind/fsm/kernel"

// verbs are the commands of this package; each file adds its own.
var verbs kernel.Verbs

// Verbs lists the commands.
func Verbs() []kernel.CommandDef { return verbs }
