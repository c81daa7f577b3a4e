// Package windowverbs has what is done to maintenance windows and reservations, one file a verb. A Tick begins and ends them.
package windowverbs

import "github.com/mindcoordinator/mind/fsm/kernel"

// verbs are the commands of this package; each file adds its own.
var verbs kernel.Verbs

// Verbs lists the commands.
func Verbs() []kernel.CommandDef { return verbs }
