// Package executions has the executions of Cores, the decisions that people make for them, and their events, as rows of the state.
//
// Guarantees. An execution is stored as its continuation: where it stands, what it has bound, and what it waits for. Its history is not
// replayed. Seq and the numbers of waits only grow (I19). A frame is replaced only by the proposer that has seen the one before it (I20).
// A decision is resolved once (I21). Every open wait is ended by time at the latest (I22), and one for a job by the entry that ends the
// job. Bound values are opaque here.
package executions

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// Standing says how a job stands: whether it is there and not over, and whether it is paused or about to stop.
type Standing struct{ Lives, Stops bool }

// Jobs says how a job stands.
type Jobs func(s *kernel.State, id ident.Job) Standing

// Domain is all that executions are to the state. verbs are the commands that change them, tick does what is due.
func Domain(verbs []kernel.CommandDef, tick func(tx *kernel.Tx) bool, jobs Jobs) kernel.Domain {
	return kernel.Domain{
		Name: "executions", Open: open, Commands: verbs,
		Records: []kernel.RecordDef{
			kernel.Rows(recordExecution, "execution", func(s *kernel.State) *kernel.Table[ident.Execution, *Execution] { return &Of(s).executions },
				func(s *kernel.State, e *Execution) error {
					e.Tenant, e.User = s.Intern(e.Tenant), s.Intern(e.User)
					Put(Of(s), e)
					return nil
				}),
			kernel.Rows(recordDecision, "decision", func(s *kernel.State) *kernel.Table[ident.Decision, *Decision] { return &Of(s).decisions },
				func(s *kernel.State, d *Decision) error {
					d.Tenant, d.NotifyURL = s.Intern(d.Tenant), s.Intern(d.NotifyURL)
					PutDecision(Of(s), d)
					return nil
				}),
			kernel.Rows(recordSegment, "event segment", func(s *kernel.State) *kernel.Table[uint64, *Segment] { return &Of(s).segments },
				func(s *kernel.State, g *Segment) error {
					g.Tenant = s.Intern(g.Tenant)
					PutSegment(Of(s), g)
					return nil
				}),
		},
		Due: NextDue, Tick: tick,
		Check: func(s *kernel.State, report kernel.Report) {
			Of(s).check(func(id ident.Job) Standing { return jobs(s, id) }, report)
		},
	}
}
