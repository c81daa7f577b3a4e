package apply

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/schedules"
)

func putSchedule(tx *tx, c *schedules.Put) any {
	if err := c.Validate(); err != nil {
		return schedules.Result{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadSchedule, err.Error())}
	}
	s := &schedules.Schedule{Tenant: tx.entry.Intern(c.Tenant), Name: c.Name, CreatedAt: tx.now}
	if old, there := tx.Schedule(s.Key()); there {
		if c.IfRevision != 0 && c.IfRevision != old.Revision || c.Next <= old.LastFor {
			return schedules.Result{Refusal: kernel.Refuse(kernel.CodeAborted, reason.ScheduleChanged, c.Name)}
		}
		kept := *old
		s = &kept
	} else if r := tx.roomForSchedule(c); r != nil {
		return schedules.Result{Refusal: r}
	}
	s.User, s.Cron, s.Zone, s.Job, s.Credentials = c.User, c.Cron, c.Zone, c.Job, c.Credentials
	s.Overlap, s.StartWithin, s.Paused, s.Next = c.Overlap, c.StartWithin, c.Paused, c.Next
	s.UpdatedAt, s.Revision = tx.now, tx.index
	tx.saveSchedule(s)
	return schedules.Result{Schedule: s}
}

// roomForSchedule says why there can be no new schedule.
func (tx *tx) roomForSchedule(c *schedules.Put) *kernel.Refusal {
	if c.IfRevision != 0 {
		return kernel.Refuse(kernel.CodeNotFound, reason.NoSchedule, c.Name)
	}
	if tx.ScheduleCount() >= schedules.Max {
		return kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManySchedules, schedules.Max)
	}
	of := 0
	for range tx.Schedules(c.Tenant) {
		of++
	}
	if of >= schedules.MaxOfTenant {
		return kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManySchedulesOfTenant, schedules.MaxOfTenant)
	}
	return nil
}

func (tx *tx) saveSchedule(s *schedules.Schedule) {
	schedules.Add(&tx.Timetable, s)
	tx.emit(event.Event{Topic: event.TopicSchedule, Tenant: s.Tenant, Name: s.Name})
}

func deleteSchedule(tx *tx, c *schedules.Delete) any {
	s, ok := tx.Schedule(schedules.Key{Tenant: c.Tenant, Name: c.Name})
	if !ok {
		return schedules.Result{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoSchedule, c.Name)}
	}
	schedules.Remove(&tx.Timetable, s)
	tx.emit(event.Event{Topic: event.TopicSchedule, Tenant: s.Tenant, Name: s.Name})
	return schedules.Result{Schedule: s}
}

func runSchedules(tx *tx, c *schedules.RunSchedules) any {
	results := make([]schedules.RunResult, len(c.Runs))
	for i := range c.Runs {
		results[i] = tx.runSchedule(&c.Runs[i])
		tx.flush()
	}
	return schedules.RunsResult{Results: results}
}

// maxRunReason bounds why a run submitted no job; bytes.
const maxRunReason = 2048

// runSchedule runs a schedule if it is due as the leader saw it, or by hand. So there is one run for each time (I18).
func (tx *tx) runSchedule(c *schedules.Run) schedules.RunResult {
	old, ok := tx.Schedule(schedules.Key{Tenant: c.Tenant, Name: c.Name})
	byHand := c.Due == 0
	switch {
	case !ok:
		return schedules.RunResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoSchedule, c.Name)}
	case byHand:
	case old.Paused, old.Next != c.Due, c.For < c.Due, c.For > tx.now, c.Next <= c.For:
		return schedules.RunResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.ScheduleNotDue, c.Name)}
	}
	if c.Job != nil && c.Job.Key != "" {
		if first, _ := tx.recall(old.Tenant, c.Job.Key, c.Job.Fingerprint, 0); first != nil {
			return schedules.RunResult{Outcome: schedules.Started, Job: first.Job}
		}
	}
	s := *old
	if !byHand {
		s.Next, s.LastFor = c.Next, c.For
		s.Missed += c.Passed
	}
	outcome, job, refusal := tx.startRun(&s, c)
	s.LastReason = ""
	if refusal != nil {
		if byHand {
			return schedules.RunResult{Refusal: refusal}
		}
		s.LastReason = refusal.Reason.Clip(maxRunReason)
	}
	switch s.LastAt, s.LastOutcome = tx.now, outcome; outcome {
	case schedules.Started:
		s.LastJob = job
		s.Started++
	case schedules.Skipped:
		s.Skipped++
	case schedules.Missed:
		s.Missed++
	case schedules.Refused:
		s.Refused++
	}
	s.Revision = tx.index
	tx.saveSchedule(&s)
	return schedules.RunResult{Outcome: outcome, Job: job}
}

// startRun submits the job of a run, or says why not.
func (tx *tx) startRun(s *schedules.Schedule, c *schedules.Run) (schedules.Outcome, ident.Job, *kernel.Refusal) {
	before, there := tx.Job(s.LastJob)
	unfinished := there && !before.Terminal()
	late := tx.now - c.For - s.StartWithin
	switch {
	case c.Due != 0 && s.StartWithin > 0 && late > 0:
		return schedules.Missed, 0, kernel.Refuse(kernel.CodeFailedPrecondition, reason.ScheduleTooLate, late)
	case unfinished && s.Overlap == schedules.Skip:
		return schedules.Skipped, 0, kernel.Refuse(kernel.CodeFailedPrecondition, reason.ScheduleOverlaps, before.ID, before.State)
	case c.Job == nil:
		return schedules.Refused, 0, &kernel.Refusal{Code: kernel.CodeFailedPrecondition, Reason: c.Refusal}
	}
	job := *c.Job
	job.Tenant, job.User, job.Credentials = s.Tenant, s.User, s.Credentials
	made := tx.submit(&job)
	if made.Refusal != nil {
		return schedules.Refused, 0, made.Refusal
	}
	if unfinished && s.Overlap == schedules.Replace {
		tx.replace(before, s.Name)
	}
	return schedules.Started, made.Job, nil
}

// replace cancels the job of an earlier run.
func (tx *tx) replace(old *work.Job, schedule string) {
	why := reason.New(reason.ReplacedByNextRun, schedule)
	if old.Array != nil {
		tx.cancelArray(tx.editArray(old.ID), why, false)
		return
	}
	j := *old
	if tx.cancel(&j, why, false) == nil {
		tx.saveJob(old, &j)
	}
}

var (
	auditSchedulePut    = access.DefineAction(64, "schedule.put", access.AboutOperation)
	auditScheduleDelete = access.DefineAction(65, "schedule.delete", access.AboutOperation)
	auditScheduleRun    = access.DefineAction(66, "schedule.run", access.AboutOperation)
)

func auditPutSchedule(tx *kernel.Tx, c *schedules.Put, result any) {
	r := access.AuditRecord{Action: auditSchedulePut, Object: c.Name, Message: reason.Text(c.Note)}
	access.Record(tx, c.Actor, r, result.(schedules.Result).Refusal)
}

func auditDeleteSchedule(tx *kernel.Tx, c *schedules.Delete, result any) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditScheduleDelete, Object: c.Name}, result.(schedules.Result).Refusal)
}

// auditRunSchedules records what was run by hand, and the jobs that were submitted at their time.
func auditRunSchedules(tx *kernel.Tx, c *schedules.RunSchedules, result any) {
	for i, r := range result.(schedules.RunsResult).Results {
		run := &c.Runs[i]
		switch {
		case run.Due == 0:
			access.Record(tx, c.Actor, access.AuditRecord{Action: auditScheduleRun, Object: run.Name, Job: r.Job}, r.Refusal)
		case r.Outcome == schedules.Started:
			by := &access.Actor{Tenant: run.Tenant, Request: "schedule/" + run.Name}
			if run.Job != nil {
				by.User = run.Job.User
			}
			access.Record(tx, by, access.AuditRecord{Tenant: run.Tenant, User: by.User, Action: work.AuditJobSubmit, Job: r.Job}, nil)
		}
	}
}
