package apply

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/tables"
)

// tx is the application of one command to the tables.
type tx struct {
	*tables.State
	meta  *work.Meta
	entry *kernel.Tx
	index uint64
	now   int64
	// retain are the jobs whose checkpoints are looked at when the command is done.
	retain []ident.Job
	arrays arrays
}

// on lets a command of this aggregate be applied by f.
func on[T any](f func(tx *tx, c *T) any) func(*kernel.Tx, *T) any {
	return func(entry *kernel.Tx, c *T) any {
		tx := &tx{
			State: tables.Of(entry.State), meta: entry.Meta().(*work.Meta), entry: entry,
			index: entry.Index(), now: entry.Now(),
		}
		result := f(tx, c)
		tx.flush()
		tx.applyRetention()
		tx.SettleAccounts()
		tx.SettleBudgets(tx.now, tx.index)
		return result
	}
}

// mint returns the next id of this entry; false when it has none left.
func (tx *tx) mint() (uint64, bool) { return tx.entry.Mint() }

func (tx *tx) emit(e event.Event) { event.Emit(tx.entry, e) }

// Domain is all that jobs, leases, nodes, queues, quotas and what belongs to them are to the state.
func Domain() kernel.Domain {
	return kernel.Domain{
		Name: "work",
		Open: tables.Open,
		Meta: &kernel.MetaDef{New: func() kernel.MetaRow { return &work.Meta{} }, Loaded: func(s *kernel.State) {
			access.KeepAudit(s, int(s.Meta().(*work.Meta).KeepAudit))
		}},
		Records: tables.Records(),
		Commands: []kernel.CommandDef{
			kernel.DefineAudited("SubmitJobs", on(submitJobs), auditSubmitJobs),
			kernel.DefineAudited("ControlJob", on(controlJob), auditControlJob),
			kernel.Define("PlaceJobs", on(placeJobs)),
			kernel.Define("PreemptJobs", on(preemptJobs)),
			kernel.Define("PromiseStarts", on(promiseStarts)),
			kernel.Define("ReportTasks", on(reportTasks)),
			kernel.DefineAudited("DeleteCheckpoint", on(deleteCheckpoint), auditDeleteCheckpoint),
			kernel.Define("ReportCheckpoints", on(reportCheckpoints)),
			kernel.DefineAudited("PinCheckpoint", on(pinCheckpoint), auditPinCheckpoint),
			kernel.Define("RegisterNode", on(registerNode)),
			kernel.DefineAudited("SetNode", on(setNode), auditSetNode),
			kernel.Define("LoseNode", on(loseNode)),
			kernel.Define("AckRoster", on(ackRoster)),
			kernel.DefineAudited("PutQueue", on(putQueue), auditPutQueue),
			kernel.DefineAudited("DeleteQueue", on(deleteQueue), auditDeleteQueue),
			kernel.DefineAudited("PutPolicy", on(putPolicy), auditPutPolicy),
			kernel.DefineAudited("PutQuota", on(putQuota), auditPutQuota),
			kernel.DefineAudited("DeleteQuota", on(deleteQuota), auditDeleteQuota),
			kernel.DefineAudited("PutWindow", on(putWindow), auditPutWindow),
			kernel.DefineAudited("DeleteWindow", on(deleteWindow), auditDeleteWindow),
			kernel.DefineAudited("PutSchedule", on(putSchedule), auditPutSchedule),
			kernel.DefineAudited("DeleteSchedule", on(deleteSchedule), auditDeleteSchedule),
			kernel.DefineAudited("RunSchedules", on(runSchedules), auditRunSchedules),
			kernel.Define("Tick", on(applyTick)),
			kernel.Define("Configure", on(configure)),
			kernel.DefineAudited("Recover", on(recoverCluster), auditRecover),
			kernel.DefineAudited("NoteSnapshot", on(noteSnapshot), auditNoteSnapshot),
		},
		Due:   tables.NextDue,
		Check: tables.Check,
	}
}

func configure(tx *tx, c *work.Configure) any {
	tx.meta.KeepFinished, tx.meta.KeepAudit = c.KeepFinished, c.KeepAudit
	tx.meta.Touch()
	access.KeepAudit(tx.entry.State, int(c.KeepAudit))
	return work.ConfigureResult{}
}
