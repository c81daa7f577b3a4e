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
		Due:   tables.NextDue,
		Check: tables.Check,
	}
}

// jobStands says how a job stands.
func jobStands(s *kernel.State, id ident.Job) executions.Standing {
	j, ok := tables.Of(s).Find(id)
	if !ok {
		return executions.Standing{}
	}
	return executions.Standing{Lives: !j.Terminal(), Stops: j.State == v1.JobState_PAUSED || j.Stop != v1.StopReason_UNSPECIFIED}
}
