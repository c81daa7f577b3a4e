package scheduleverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/schedules"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/keys"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// maxRunReason bounds why a run submitted no job; bytes.
const maxRunReason = 2048

// RunSchedules runs schedules that are due, each for itself.
type RunSchedules struct {
	Runs []Run `cbor:"1,keyasint,omitempty"`
	// Actor runs a schedule by hand.
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (RunSchedules) CommandNumber() uint16 { return 50 }

func init() { verbs.Add(lifecycle.Verb("RunSchedules", runSchedules, auditRunSchedules)) }

// Run is one run of a schedule.
type Run struct {
	Tenant string `cbor:"1,keyasint,omitempty"`
	Name   string `cbor:"2,keyasint,omitempty"`
	// Due is when the schedule is due, as the leader saw it; 0: it is run by hand, and is due as before.
	Due int64 `cbor:"3,keyasint,omitempty"`
	// For is the newest time at which it was due, and Passed is how many there were from Due to before it.
	For    int64  `cbor:"4,keyasint,omitempty"`
	Passed uint64 `cbor:"5,keyasint,omitempty"`
	// Next is when it is due after For.
	Next int64 `cbor:"6,keyasint,omitempty"`
	// Job is the job that it submits; nil: Refusal says why there is none. Its tenant, user and credentials are those of the schedule.
	Job     *jobverbs.NewJob `cbor:"7,keyasint,omitempty"`
	Refusal reason.Reason    `cbor:"8,keyasint,omitempty"`
}

// RunsResult has one result per run, in order.
type RunsResult struct {
	Results []RunResult
}

// RunResult is the outcome of a run. With a Refusal it is no run, and has changed nothing.
type RunResult struct {
	Outcome schedules.Outcome
	Job     ident.Job
	Refusal *kernel.Refusal
}

func runSchedules(tx *lifecycle.Tx, c *RunSchedules) RunsResult {
	results := make([]RunResult, len(c.Runs))
	for i := range c.Runs {
		results[i] = runSchedule(tx, &c.Runs[i])
		tx.Flush()
	}
	return RunsResult{Results: results}
}

// runSchedule runs a schedule if it is due as the leader saw it, or by hand. So there is one run for each time (I18).
func runSchedule(tx *lifecycle.Tx, c *Run) RunResult {
	old, ok := schedules.Of(tx.Entry.State).Schedule(schedules.Key{Tenant: c.Tenant, Name: c.Name})
	byHand := c.Due == 0
	switch {
	case !ok:
		return RunResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoSchedule, c.Name)}
	case byHand:
	case old.Paused, old.Next != c.Due, c.For < c.Due, c.For > tx.Now, c.Next <= c.For:
		return RunResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.ScheduleNotDue, c.Name)}
	}
	if c.Job != nil && c.Job.Key != "" {
		if first, _ := keys.Recall(&tx.Ring, old.Tenant, c.Job.Key, c.Job.Fingerprint, 0, tx.Now); first != nil {
			return RunResult{Outcome: schedules.Started, Job: first.Job}
		}
	}
	s := *old
	if !byHand {
		s.Next, s.LastFor = c.Next, c.For
		s.Missed += c.Passed
	}
	outcome, job, refusal := startRun(tx, &s, c)
	s.LastReason = ""
	if refusal != nil {
		if byHand {
			return RunResult{Refusal: refusal}
		}
		s.LastReason = refusal.Reason.Clip(maxRunReason)
	}
	switch s.LastAt, s.LastOutcome = tx.Now, outcome; outcome {
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
	s.Revision = tx.Index
	saveSchedule(tx, &s)
	return RunResult{Outcome: outcome, Job: job}
}

// startRun submits the job of a run, or says why not.
func startRun(tx *lifecycle.Tx, s *schedules.Schedule, c *Run) (schedules.Outcome, ident.Job, *kernel.Refusal) {
	before, there := tx.Job(s.LastJob)
	unfinished := there && !before.Terminal()
	late := tx.Now - c.For - s.StartWithin
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
	made := jobverbs.Submit(tx, &job)
	if made.Refusal != nil {
		return schedules.Refused, 0, made.Refusal
	}
	if unfinished && s.Overlap == schedules.Replace {
		replace(tx, before, s.Name)
	}
	return schedules.Started, made.Job, nil
}

// replace cancels the job of an earlier run.
func replace(tx *lifecycle.Tx, old *work.Job, schedule string) {
	why := reason.New(reason.ReplacedByNextRun, schedule)
	if old.Array != nil {
		jobverbs.CancelArray(tx, tx.EditArray(old.ID), why, false)
		return
	}
	j := *old
	if jobverbs.Cancel(tx, &j, why, false) == nil {
		tx.SaveJob(old, &j)
	}
}

var auditScheduleRun = access.DefineAction(66, "schedule.run", access.AboutOperation)

// auditRunSchedules records what was run by hand, and the jobs that were submitted at their time.
func auditRunSchedules(tx *kernel.Tx, c *RunSchedules, result RunsResult) {
	for i, r := range result.Results {
		run := &c.Runs[i]
		switch {
		case run.Due == 0:
			access.Record(tx, c.Actor, access.AuditRecord{Action: auditScheduleRun, Object: run.Name, Job: r.Job}, r.Refusal)
		case r.Outcome == schedules.Started:
			by := &access.Actor{Tenant: run.Tenant, Request: "schedule/" + run.Name}
			if run.Job != nil {
				by.User = run.Job.User
			}
			access.Record(tx, by, access.AuditRecord{Tenant: run.Tenant, User: by.User, Action: jobverbs.AuditJobSubmit, Job: r.Job}, nil)
		}
	}
}
