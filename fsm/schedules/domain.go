package schedules

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Jobs finds jobs.
type Jobs interface {
	Job(id ident.Job) (*work.Job, bool)
}

// Domain is all that schedules are to the state. verbs are the commands that change them, jobs finds the jobs that they have
// submitted.
func Domain(verbs []kernel.CommandDef, jobs func(*kernel.State) Jobs) kernel.Domain {
	return kernel.Domain{
		Name: "schedules", Open: open, Records: records(), Commands: verbs,
		Check: func(s *kernel.State, report kernel.Report) { Of(s).check(jobs(s), report) },
	}
}
