package tables

import (
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// checkReasons reports reasons that nobody could put into words.
func checkReasons(s *rows, report kernel.Report) {
	of := func(id string) func(string, reason.Reason) {
		return func(what string, why reason.Reason) {
			if err := why.Valid(); err != nil {
				report("%s of %s: %v", what, id, err)
			}
		}
	}
	for j := range s.jobs.rows.Rows() {
		j.Reasons(of(j.ID.String()))
	}
	for n := range s.Nodes() {
		n.Reasons(of(n.ID))
	}
	for class, why := range s.ClassReasons() {
		of(class.Queue)("the reason of a class", why)
	}
	for p := range s.Promises() {
		p.Reasons(of("the promise to " + p.Job.String()))
	}
	for c := range s.Checkpoints() {
		of(c.ID.String())("the reason", c.Reason)
	}
	for r := range s.Results() {
		of(r.Job.String())("the error of a result", r.Error)
	}
}
