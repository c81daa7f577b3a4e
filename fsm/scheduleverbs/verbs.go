// Package scheduleverbs has what is done to schedules, one file a verb.
//
// Guarantees (I18). For each time that a schedule is due there is at most one run, whichever leader proposes it and however often.
// With Skip, a schedule has at most one unfinished job.
package scheduleverbs

import "github.com/mindcoordinator/mind/fsm/kernel"

// verbs are the commands of this package; each file adds its own.
var verbs kernel.Verbs

// Verbs lists the commands.
func Verbs() []kernel.CommandDef { return verbs }
