package apply

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// controlArray carries out a user's will about all elements of an array.
func (tx *tx) controlArray(old *work.Job, c *work.ControlJob) *kernel.Refusal {
	row := tx.editArray(old.ID)
	if c.Shape != nil || c.Checkpoint != 0 {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NotForAnArray, row.ID)
	}
	switch c.Action {
	case work.ActionCancel:
		return tx.cancelArray(row, reason.Text(c.Reason), c.Vouch)
	case work.ActionPause:
		return tx.pauseArray(row, reason.Text(c.Reason), c.SaveCheckpoint)
	case work.ActionResume:
		return tx.resumeArray(row, reason.Text(c.Reason), c)
	case work.ActionRetry:
		return tx.retryArray(row, c)
	}
	return kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownAction, uint8(c.Action))
}

// eachElement changes the elements of an array that have a row, one by one. change says whether it has changed its copy.
func (tx *tx) eachElement(array ident.Job, change func(j *work.Job) bool) {
	for _, old := range slices.Collect(tx.Elements(array, 0)) {
		j := *old
		if change(&j) {
			tx.saveJob(old, &j)
		}
	}
}

func (tx *tx) cancelArray(row *work.Job, why reason.Reason, vouch bool) *kernel.Refusal {
	if row.Terminal() {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NothingToCancel, row.ID, row.State)
	}
	if row.Stop == v1.StopReason_CANCEL && !vouch {
		return nil
	}
	why = orElse(why, reason.CanceledByUser)
	abandon(row)
	row.Held, row.SettlesAt = 0, 0
	if row.State == v1.JobState_PAUSED && row.Array.Rows.Live > 0 {
		tx.move(row, v1.JobState_RUNNING, "")
	}
	tx.askToStop(row, v1.StopReason_CANCEL, 0, why)
	tx.eachElement(row.ID, func(j *work.Job) bool {
		if j.Terminal() {
			return false
		}
		return tx.cancel(j, why, vouch && len(tx.outOfReach(j)) > 0) == nil
	})
	return nil
}

func (tx *tx) pauseArray(row *work.Job, why reason.Reason, save bool) *kernel.Refusal {
	why = orElse(why, reason.PausedByUser)
	switch {
	case row.State == v1.JobState_PAUSED:
		return nil
	case row.Terminal():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotPause, row.ID, row.State)
	case row.Stop == v1.StopReason_CANCEL:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.BeingCanceled, row.ID)
	}
	row.Held, row.SettlesAt = 0, 0
	tx.move(row, v1.JobState_PAUSED, why)
	tx.eachElement(row.ID, func(j *work.Job) bool {
		// What is ending already ends as it would.
		return !j.Terminal() && j.State != v1.JobState_PAUSED && tx.pause(j, why, save) == nil
	})
	return nil
}

func (tx *tx) resumeArray(row *work.Job, why reason.Reason, c *work.ControlJob) *kernel.Refusal {
	switch {
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
	if stopping > 0 {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.ElementsStopping, row.ID, stopping)
	}
	if row.StartedAt == 0 {
		if hopeless := tx.hopeless(row); hopeless != "" {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CanNeverRun, row.ID, hopeless)
		}
	}
	why = orElse(why, reason.ResumedByUser)
	tx.reopen(row, why)
	renew(row, c)
	tx.eachElement(row.ID, func(j *work.Job) bool {
		if j.State != v1.JobState_PAUSED || tx.resume(j, why, 0) != nil {
			return false
		}
		renew(j, c)
		return true
	})
	return nil
}

// reopen lets the elements of an array be placed again.
func (tx *tx) reopen(row *work.Job, why reason.Reason) {
	to := v1.JobState_QUEUED
	if row.StartedAt != 0 && row.State == v1.JobState_PAUSED {
		to = v1.JobState_RUNNING
	} else {
		row.Held = tx.holds(row)
	}
	tx.holdForRecovery(row)
	tx.move(row, to, why)
}

func (tx *tx) retryArray(row *work.Job, c *work.ControlJob) *kernel.Refusal {
	switch {
	case row.State == v1.JobState_SUCCEEDED:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.RetrySucceeded, row.ID)
	}
	if r := tx.mayGoOn(row.ID); r != nil {
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
	if r := tx.admitMore(row.Tenant, more); r != nil {
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
	tx.restart(row, orElse(reason.Text(c.Reason), reason.RetriedByUser))
	renew(row, c)
	tx.eachElement(row.ID, func(j *work.Job) bool {
		if !j.Terminal() || j.State == v1.JobState_SUCCEEDED || j.State == v1.JobState_CANCELED && !canceled || tx.retry(j, c) != nil {
			return false
		}
		renew(j, c)
		return true
	})
	return nil
}

// mayGoOn says why no element of an array may be tried again; nil: they may, or the job is no array.
func (tx *tx) mayGoOn(array ident.Job) *kernel.Refusal {
	switch row := tx.array(array); {
	case row == nil:
		return nil
	case row.State == v1.JobState_PAUSED:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.RetryPaused, array)
	case row.Stop == v1.StopReason_CANCEL:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.BeingCanceled, array)
	}
	return nil
}

// renew replaces the credentials of a job that will run again.
func renew(j *work.Job, c *work.ControlJob) {
	if c.Credentials != nil {
		j.Credentials = c.Credentials
	}
}

// restart lets an array that is over go on with the elements that wait again.
func (tx *tx) restart(row *work.Job, why reason.Reason) {
	if !row.Terminal() {
		return
	}
	row.Dependencies = nil
	row.StartedAt, row.FinishedAt, row.ExitCode, row.ErrorType, row.ErrorMessage = 0, 0, nil, 0, ""
	tx.reopen(row, why)
}

// controlElement carries out a user's will about an element that has no row. e is what it would be if it had one.
func (tx *tx) controlElement(e *work.Job, c *work.ControlJob) *kernel.Refusal {
	array, number, _ := e.ID.Element()
	row := tx.editArray(array)
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
	case c.Action != work.ActionRetry:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownAction, uint8(c.Action))
	case e.State == v1.JobState_SUCCEEDED:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.RetrySucceeded, id)
	case !e.Terminal():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotRetry, id, e.State)
	}
	if r := tx.mayGoOn(array); r != nil {
		return r
	}
	if _, ok := tx.Queue(row.Queue); !ok {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueOfJobGone, row.Queue, id, tx.QueueNames())
	}
	if r := tx.admitMore(row.Tenant, 1); r != nil {
		return r
	}
	a.Again(number)
	tx.restart(row, orElse(reason.Text(c.Reason), reason.RetriedByUser))
	renew(row, c)
	return nil
}
