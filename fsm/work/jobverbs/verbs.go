// Package jobverbs has what is done to jobs, one file a verb: its command, what is refused and why, what it changes, and what the
// audit log says of it.
//
// Guarantees. A command does all of it or is refused with a sentence. A plan is legal when it is applied, whatever it was
// when it was made; the leases of an attempt are granted all at once. Nothing is believed of a task but under the token of its
// lease.
//
// Not guaranteed here: that a plan is good, only that it is legal.
package jobverbs

import "github.com/mindcoordinator/mind/fsm/kernel"

// verbs are the commands of this package; each file adds its own.
var verbs kernel.Verbs

// Verbs lists the commands.
func Verbs() []kernel.CommandDef { return verbs }
