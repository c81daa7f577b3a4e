package jobverbs

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// controlArray carries out a user's will about all elements of an array.
func controlArray(tx *lifecycle.Tx, old *work.Job, c *ControlJob) *kernel.Refusal {
	row := tx.EditArray(old.ID)
	if c.Shape != nil || c.Checkpoint != 0 {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NotForAnArray, row.ID)
	}
	switch c.Action {
	case work.ActionCancel:
		return CancelArray(tx, row, c.why(), c.Vouch)
	case work.ActionPause:
		return pauseArray(tx, row, c.why(), c.SaveCheckpoint)
	case work.ActionResume:
		return resumeArray(tx, row, c.why(), c)
	case work.ActionRetry:
		return retryArray(tx, row, c)
	case work.ActionHold:
		return holdArray(tx, row, c.why())
	case work.ActionRelease:
		return releaseArray(tx, row)
	}
	return kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownAction, uint8(c.Action))
}

// eachElement changes the elements of an array that have a row, one by one. change says whether it has changed its copy.
func eachElement(tx *lifecycle.Tx, array ident.Job, change func(j *work.Job) bool) {
	for _, old := range slices.Collect(tx.Elements(array, 0)) {
		j := *old
		if change(&j) {
			tx.SaveJob(old, &j)
		}
	}
}

func CancelArray(tx *lifecycle.Tx, row *work.Job, why reason.Reason, vouch bool) *kernel.Refusal {
	if row.Terminal() {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NothingToCancel, row.ID, row.State)
	}
	if row.Stop == v1.StopReason_CANCEL && !vouch {
		return nil
	}
	why = lifecycle.OrElse(why, reason.CanceledByUser)
	lifecycle.Abandon(row)
	row.Held, row.SettlesAt = 0, 0
	if row.State == v1.JobState_PAUSED && row.Array.Rows.Live > 0 {
		tx.Move(row, v1.JobState_RUNNING, "")
	}
	tx.AskToStop(row, v1.StopReason_CANCEL, 0, why)
	eachElement(tx, row.ID, func(j *work.Job) bool {
		if j.Terminal() {
			return false
		}
		return Cancel(tx, j, why, vouch && len(outOfReach(tx, j)) > 0) == nil
	})
	return nil
}

func pauseArray(tx *lifecycle.Tx, row *work.Job, why reason.Reason, save bool) *kernel.Refusal {
	why = lifecycle.OrElse(why, reason.PausedByUser)
	switch {
	case row.State == v1.JobState_PAUSED:
		return nil
	case row.Terminal():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotPause, row.ID, row.State)
	case row.Stop == v1.StopReason_CANCEL:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.BeingCanceled, row.ID)
	}
	row.Held, row.SettlesAt = 0, 0
	tx.Move(row, v1.JobState_PAUSED, why)
	eachElement(tx, row.ID, func(j *work.Job) bool {
		// Elements that are ending already end as they would.
		return !j.Terminal() && j.State != v1.JobState_PAUSED && tx.Pause(j, why, save) == nil
	})
	return nil
}

func resumeArray(tx *lifecycle.Tx, row *work.Job, why reason.Reason, c *ControlJob) *kernel.Refusal {
	switch {
	case row.Held&work.HoldUser != 0:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.ResumeHeld, row.ID)
	case row.State == v1.JobState_QUEUED || row.State == v1.JobState_RUNNING && row.Stop == v1.StopReason_UNSPECIFIED:
		return nil
	case row.State != v1.JobState_PAUSED:
		said := reason.CannotResume
		if row.Terminal() {
			said = reason.CannotResumeFinished
		}
		return kernel.Refuse(kernel.CodeFailedPrecondition, said, row.ID, row.State)
	}
	stopping := 0
	for j := range tx.Elements(row.ID, 0) {
		if j.Live() && j.Stop == v1.StopReason_PAUSE {
			stopping++
		}
	}
	if stopping > 0 && !tx.Entry.Open(steerGate) {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.ElementsStopping, row.ID, stopping)
	}
	if row.StartedAt == 0 {
		if hopeless := tx.Hopeless(row); hopeless != "" {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CanNeverRun, row.ID, hopeless)
		}
	}
	why = lifecycle.OrElse(why, reason.ResumedByUser)
	tx.Reopen(row, why)
	renew(row, c)
	eachElement(tx, row.ID, func(j *work.Job) bool {
		paused := j.State == v1.JobState_PAUSED || j.Live() && j.Stop == v1.StopReason_PAUSE
		if !paused || resume(tx, j, why, 0) != nil {
			return false
		}
		renew(j, c)
		return true
	})
	return nil
}

func retryArray(tx *lifecycle.Tx, row *work.Job, c *ControlJob) *kernel.Refusal {
	switch {
	case row.State == v1.JobState_SUCCEEDED:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.RetrySucceeded, row.ID)
	}
	if r := tx.MayGoOn(row.ID); r != nil {
		return r
	}
	if _, ok := tx.Queue(row.Queue); !ok {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueOfJobGone, row.Queue, row.ID, tx.QueueNames())
	}
	a := row.Array
	canceled := row.State == v1.JobState_CANCELED
	more := int(a.Rows.Failed) + a.GoneFailed()
	if canceled {
		more += int(a.Rows.Canceled) + a.Canceled.Len()
	}
	if more == 0 {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NothingFailed, row.ID)
	}
	if r := tx.AdmitMore(row.Tenant, more); r != nil {
		return r
	}
	if r := admitAgain(tx, row); r != nil {
		return r
	}
	for i := range a.Failed {
		a.Waiting = a.Waiting.And(a.Failed[i].Elements)
	}
	a.Failed = nil
	if canceled {
		a.Waiting, a.Canceled = a.Waiting.And(a.Canceled), nil
	}
	a.Base = a.Attempts
	tx.Restart(row, lifecycle.OrElse(c.why(), reason.RetriedByUser))
	renew(row, c)
	eachElement(tx, row.ID, func(j *work.Job) bool {
		if !j.Terminal() || j.State == v1.JobState_SUCCEEDED || j.State == v1.JobState_CANCELED && !canceled || retry(tx, j, c) != nil {
			return false
		}
		renew(j, c)
		return true
	})
	return nil
}

// renew replaces the credentials of a job that will run again.
func renew(j *work.Job, c *ControlJob) {
	if c.Credentials != nil {
		j.Credentials = c.Credentials
	}
}

// controlElement carries out a user's will about an element that has no row. e is its row as it would be.
func controlElement(tx *lifecycle.Tx, e *work.Job, c *ControlJob) *kernel.Refusal {
	array, number, _ := e.ID.Element()
	row := tx.EditArray(array)
	a, id := row.Array, e.ID
	switch {
	case c.Shape != nil || c.Checkpoint != 0:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NotForAnArray, row.ID)
	}
	switch {
	case c.Action == work.ActionCancel && e.Terminal():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NothingToCancel, id, e.State)
	case c.Action == work.ActionCancel:
		a.Waiting, a.Canceled = a.Waiting.Without(number), a.Canceled.With(number)
		return nil
	case c.Action != work.ActionRetry && !e.Terminal():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.ElementNotStarted, id)
	case c.Action == work.ActionPause:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotPause, id, e.State)
	case c.Action == work.ActionResume:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotResumeFinished, id, e.State)
	case c.Action == work.ActionHold:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotHold, id, e.State)
	case c.Action == work.ActionRelease:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotRelease, id, e.State)
	case c.Action != work.ActionRetry:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownAction, uint8(c.Action))
	case e.State == v1.JobState_SUCCEEDED:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.RetrySucceeded, id)
	case !e.Terminal():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotRetry, id, e.State)
	}
	if r := tx.MayGoOn(array); r != nil {
		return r
	}
	if _, ok := tx.Queue(row.Queue); !ok {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueOfJobGone, row.Queue, id, tx.QueueNames())
	}
	if r := tx.AdmitMore(row.Tenant, 1); r != nil {
		return r
	}
	if r := admitAgain(tx, row); r != nil {
		return r
	}
	a.Again(number)
	tx.Restart(row, lifecycle.OrElse(c.why(), reason.RetriedByUser))
	renew(row, c)
	return nil
}
