package jobverbs

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// hold keeps a job that waits from the scheduler until a user releases it.
func hold(j *work.Job, why reason.Reason) *kernel.Refusal {
	if j.State != v1.JobState_QUEUED {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotHold, j.ID, j.State)
	}
	if j.Held&work.HoldUser == 0 {
		j.Held |= work.HoldUser
		j.Reason = holdReason(why)
	}
	return nil
}

func holdReason(why reason.Reason) reason.Reason {
	if why == "" {
		return reason.New(reason.HeldByUser)
	}
	return reason.New(reason.HeldBecause, why)
}

// release ends what hold began. Other holds of the job go on.
func release(tx *lifecycle.Tx, j *work.Job) *kernel.Refusal {
	if j.Terminal() {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotRelease, j.ID, j.State)
	}
	if j.Held&work.HoldUser != 0 {
		j.Held &^= work.HoldUser
		if j.Array == nil {
			j.Held = tx.Holds(j)
		}
		j.Reason = work.HoldReason(j)
	}
	return nil
}

// holdArray holds an array: no element of it begins, and none that waits for its next attempt. Those that run go on.
func holdArray(tx *lifecycle.Tx, row *work.Job, why reason.Reason) *kernel.Refusal {
	waits := row.State == v1.JobState_QUEUED || row.State == v1.JobState_RUNNING && row.Stop == v1.StopReason_UNSPECIFIED
	if !waits {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotHold, row.ID, row.State)
	}
	if row.Held&work.HoldUser == 0 {
		row.Held |= work.HoldUser
		row.Reason = holdReason(why)
	}
	eachElement(tx, row.ID, func(j *work.Job) bool { return hold(j, why) == nil })
	return nil
}

func releaseArray(tx *lifecycle.Tx, row *work.Job) *kernel.Refusal {
	if r := release(tx, row); r != nil {
		return r
	}
	eachElement(tx, row.ID, func(j *work.Job) bool { return j.Held&work.HoldUser != 0 && release(tx, j) == nil })
	return nil
}

// AuditJobHold and AuditJobRelease are the actions in the audit log.
var (
	AuditJobHold    = access.DefineAction(89, "job.hold", access.AboutJobs)
	AuditJobRelease = access.DefineAction(90, "job.release", access.AboutJobs)
)
