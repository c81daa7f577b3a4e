// Package clusterverbs has the commands about the cluster as a whole, one file a verb: time passes, the state is configured,
// recovered, saved.
package clusterverbs

import "github.com/mindcoordinator/mind/fsm/kernel"

// verbs are the commands of this package; each file adds its own.
var verbs kernel.Verbs

// Verbs lists the commands.
func Verbs() []kernel.CommandDef { return verbs }
