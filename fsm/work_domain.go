package fsm

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpointverbs"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/overdraft"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/tables"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
)

// workDomain is all that jobs, leases, nodes, queues, quotas and what belongs to them are to the state.
func workDomain() kernel.Domain {
	return kernel.Domain{
		Name: "work",
		Open: tables.Open,
		Meta: &kernel.MetaDef{New: func() kernel.MetaRow { return &work.Meta{} }, Loaded: func(s *kernel.State) {
			access.KeepAudit(s, int(s.Meta().(*work.Meta).KeepAudit))
		}},
		Records: tables.Records(),
		Commands: slices.Concat(
			jobverbs.Verbs(), nodeverbs.Verbs(), checkpointverbs.Verbs(), queueverbs.Verbs(), windowverbs.Verbs(), clusterverbs.Verbs(),
		),
		Due: nextDue,
		Check: func(s *kernel.State, report kernel.Report) {
			tables.Check(s, report)
			overdraft.Check(tables.Of(s), report)
		},
	}
}

// nextDue is when a Tick has something to do about jobs and what belongs to them.
func nextDue(s *kernel.State) (int64, bool) {
	due, any := tables.NextDue(s)
	if at, ok := overdraft.Next(tables.Of(s)); ok && (!any || at < due) && policy.HoursGate.Open(s.Level()) {
		return at, true
	}
	return due, any
}

// jobStands says how a job stands.
func jobStands(s *kernel.State, id ident.Job) executions.Standing {
	j, ok := tables.Of(s).Find(id)
	if !ok {
		return executions.Standing{}
	}
	return executions.Standing{Lives: !j.Terminal(), Stops: j.State == v1.JobState_PAUSED || j.Stop != v1.StopReason_UNSPECIFIED}
}
