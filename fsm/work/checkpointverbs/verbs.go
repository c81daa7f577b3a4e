// Package checkpointverbs has what is done to checkpoints after a job has registered them, one file a verb.
//
// Guarantees. A node is believed only what it was told to do.
package checkpointverbs

import "github.com/mindcoordinator/mind/fsm/kernel"

// verbs are the commands of this package; each file adds its own.
var verbs kernel.Verbs

// Verbs lists the commands.
func Verbs() []kernel.CommandDef { return verbs }
