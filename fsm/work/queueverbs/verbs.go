// Package queueverbs has what operators do to queues, to the quotas of tenants and to the policy of the scheduler, one file a
// verb.
package queueverbs

import "github.com/mindcoordinator/mind/fsm/kernel"

// verbs are the commands of this package; each file adds its own.
var verbs kernel.Verbs

// Verbs lists the commands.
func Verbs() []kernel.CommandDef { return verbs }
