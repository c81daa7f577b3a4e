package lifecycle

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/work/results"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// An array is one row. A command may change many of its elements, so its new row is collected here and put in once, by
// Flush: after the command, and where a command of several parts says so. Reads never put it in.
//
// arrays are the arrays that the command has changed and not yet put in, in the order of the changes.
type arrays struct {
	rows  map[ident.Job]*editedArray
	order []ident.Job
}

type editedArray struct{ old, row *work.Job }

// jobRows finds the rows that have been put in.
type jobRows interface {
	Job(id ident.Job) (*work.Job, bool)
}

// lookup finds jobs as the command has left them so far. It has nothing to write with: a read changes nothing.
type lookup struct {
	put    jobRows
	edited map[ident.Job]*editedArray
}

func (l lookup) job(id ident.Job) (*work.Job, bool) {
	if e, edited := l.edited[id]; edited {
		return e.row, true
	}
	return l.put.Job(id)
}

// find is job, also of an element of an array that has no row: it is as if it had one.
func (l lookup) find(id ident.Job) (*work.Job, bool) {
	if j, ok := l.job(id); ok {
		return j, true
	}
	array, number, ok := id.Element()
	if !ok {
		return nil, false
	}
	row, ok := l.job(array)
	if !ok {
		return nil, false
	}
	j := row.ElementWithoutARow(number)
	return j, j != nil
}

func (tx *Tx) lookup() lookup { return lookup{tx.State, tx.arrays.rows} }

// Job returns a job by its id, with all that the command has done to it, not to be changed.
func (tx *Tx) Job(id ident.Job) (*work.Job, bool) { return tx.lookup().job(id) }

// Find is Job, also of an element of an array that has no row.
func (tx *Tx) Find(id ident.Job) (*work.Job, bool) { return tx.lookup().find(id) }

// ArrayRow returns the row of an array, with all that the command has done to it, not to be changed; nil: there is none.
func (tx *Tx) ArrayRow(id ident.Job) *work.Job {
	if row, ok := tx.Job(id); ok && row.Array != nil {
		return row
	}
	return nil
}

// EditArray returns the row of an array, to be changed; nil: there is none.
func (tx *Tx) EditArray(id ident.Job) *work.Job {
	old := tx.ArrayRow(id)
	if _, edited := tx.arrays.rows[id]; edited || old == nil {
		return old
	}
	row := *old
	row.Array = old.Array.Clone()
	if tx.arrays.rows == nil {
		tx.arrays.rows = map[ident.Job]*editedArray{}
	}
	tx.arrays.rows[id] = &editedArray{old, &row}
	tx.arrays.order = append(tx.arrays.order, id)
	return &row
}

// ForgetEdits takes back what was done to arrays since the last flush.
func (tx *Tx) ForgetEdits() { tx.arrays = arrays{} }

// Flush puts in all arrays that were changed. A job that waited for the end of one may change others.
func (tx *Tx) Flush() {
	for len(tx.arrays.order) > 0 {
		tx.flushArray(tx.arrays.order[0])
	}
}

// flushArray puts in an array that was changed: without the elements that it does not keep any more, and ended if all of its
// elements are over.
func (tx *Tx) flushArray(id ident.Job) {
	e := tx.arrays.rows[id]
	for _, over := range tx.EndedElements(id) {
		tx.Fold(e.row, over)
	}
	tx.settleArray(e.row)
	tx.arrays.order = slices.DeleteFunc(tx.arrays.order, func(other ident.Job) bool { return other == id })
	delete(tx.arrays.rows, id)
	tx.SaveJob(e.old, e.row)
	if e.row.Array.Canceled.Len() > e.old.Array.Canceled.Len() {
		tx.settleElements(id)
	}
}

// settleElements looks at the jobs that wait for elements which were canceled before they ran.
func (tx *Tx) settleElements(array ident.Job) {
	for _, id := range tx.ElementsLookedAt(array) {
		if e, ok := tx.Find(id); ok && e.Terminal() {
			tx.settleDependents(e)
		}
	}
}

// Fold takes away the row of an element that is over. The row of the array keeps its end.
func (tx *Tx) Fold(array, j *work.Job) {
	array.Array.Fold(j)
	for _, c := range slices.Collect(tx.CheckpointsOf(j.ID)) {
		tx.Discard(c)
	}
	results.DropOf(&tx.Sheet, j.ID)
	executions.DropGates(executions.Of(tx.Entry.State), j.ID)
	tx.DropJob(j)
}

// settleArray moves an array to where its elements are.
func (tx *Tx) settleArray(j *work.Job) {
	a := j.Array
	left := a.Unfinished()
	switch {
	case j.Terminal() && left > 0:
		tx.Restart(j, reason.New(reason.RetriedByUser))
	case j.Terminal():
		return
	}
	switch {
	case j.State == v1.JobState_QUEUED && a.Rows.Live > 0:
		j.StartedAt = tx.Now
		tx.Move(j, v1.JobState_RUNNING, "")
	case left == 0:
		tx.endArray(j)
	}
}

// endArray ends an array of which all elements are over.
func (tx *Tx) endArray(j *work.Job) {
	a := j.Array
	failed, canceled := int(a.Rows.Failed)+a.GoneFailed(), int(a.Rows.Canceled)+a.Canceled.Len()
	stop := j.Stop
	j.FinishedAt, j.Stop, j.Held, j.SettlesAt, j.Credentials = tx.Now, 0, 0, 0, nil
	switch {
	case stop == v1.StopReason_CANCEL:
		tx.Move(j, v1.JobState_CANCELED, j.Reason)
	case failed > 0:
		j.ExitCode, j.ErrorType = tx.worst(j)
		j.ErrorMessage = reason.New(reason.ElementsFailed, failed, a.Size())
		tx.Move(j, v1.JobState_FAILED, j.ErrorMessage)
	case canceled > 0:
		tx.Move(j, v1.JobState_CANCELED, reason.New(reason.ElementsCanceled, canceled, a.Size()))
	default:
		zero := int32(0)
		j.ExitCode = &zero
		tx.Move(j, v1.JobState_SUCCEEDED, "")
	}
}

// worst is the highest exit code of the elements that failed, with its error; without any code, the error of one of them.
func (tx *Tx) worst(j *work.Job) (code *int32, cause v1.ErrorType_Value) {
	consider := func(c *int32, e v1.ErrorType_Value) {
		if cause == v1.ErrorType_UNSPECIFIED || c != nil && (code == nil || *c > *code) {
			code, cause = c, e
		}
	}
	for i := range j.Array.Failed {
		consider(j.Array.Failed[i].ExitCode, j.Array.Failed[i].ErrorType)
	}
	if j.Array.Rows.Failed > 0 {
		for e := range tx.Elements(j.ID, 0) {
			if e.Terminal() && e.State != v1.JobState_SUCCEEDED && e.State != v1.JobState_CANCELED {
				consider(e.ExitCode, e.ErrorType)
			}
		}
	}
	return code, cause
}

// Materialize returns the row of an element that waits for its first placement, as it would be put in; nil: it does not
// wait.
func (tx *Tx) Materialize(id ident.Job) *work.Job {
	array, number, ok := id.Element()
	if !ok {
		return nil
	}
	row := tx.ArrayRow(array)
	if row == nil || !row.Waiting() || !row.Array.Waiting.Has(number) {
		return nil
	}
	return row.Element(number)
}

// OverParallel says why no more elements of an array may be given leases; empty: one may.
func (tx *Tx) OverParallel(j *work.Job) reason.Reason {
	if j.MaxParallel == 0 {
		return ""
	}
	if a := tx.ArrayRow(j.ID.Submitted()); a != nil && a.Array.Rows.Live >= j.MaxParallel {
		return reason.New(reason.MaxParallelReached, int(a.Array.Rows.Live), int(j.MaxParallel))
	}
	return ""
}

// follow takes a change of an element to its array. An element that would wait for another attempt does as its array does.
// old is nil when the element begins.
func (tx *Tx) follow(old, j *work.Job) {
	array, number, ok := j.ID.Element()
	if !ok {
		return
	}
	row := tx.EditArray(array)
	if j.State == v1.JobState_QUEUED {
		switch {
		case row.Stop == v1.StopReason_CANCEL:
			j.FinishedAt, j.Held, j.SettlesAt, j.Credentials = tx.Now, 0, 0, nil
			tx.Move(j, v1.JobState_CANCELED, row.Reason)
		case row.State == v1.JobState_PAUSED:
			j.Held, j.SettlesAt = 0, 0
			tx.Move(j, v1.JobState_PAUSED, row.Reason)
		case row.Held&work.HoldUser != 0 && (old == nil || old.State != v1.JobState_QUEUED):
			j.Held |= work.HoldUser
			j.Reason = work.HoldReason(j)
		}
	}
	if j.Terminal() && (old == nil || !old.Terminal()) {
		j.Keep = tx.hasResults(j)
	}
	if old != nil {
		row.Array.Rows.Count(old, -1)
	} else {
		row.Array.Waiting = row.Array.Waiting.Without(number)
	}
	row.Array.Rows.Count(j, 1)
}

// hasResults says whether something belongs to an element that would go with its row.
func (tx *Tx) hasResults(j *work.Job) bool {
	for range tx.CheckpointsOf(j.ID) {
		return true
	}
	return false
}

// Abandon ends the elements of a job that will never run, if it is an array. j is a copy.
func Abandon(j *work.Job) {
	if j.Array == nil || len(j.Array.Waiting) == 0 {
		return
	}
	j.Array = j.Array.Clone()
	j.Array.Canceled, j.Array.Waiting = j.Array.Canceled.And(j.Array.Waiting), nil
}

// Reopen lets the elements of an array be placed again.
func (tx *Tx) Reopen(row *work.Job, why reason.Reason) {
	to := v1.JobState_QUEUED
	if row.StartedAt != 0 && row.State == v1.JobState_PAUSED {
		to = v1.JobState_RUNNING
	} else {
		row.Held = tx.Holds(row)
	}
	tx.HoldForRecovery(row)
	tx.Move(row, to, why)
}

// MayGoOn says why no element of an array may be tried again; nil: they may, or the job is no array.
func (tx *Tx) MayGoOn(array ident.Job) *kernel.Refusal {
	switch row := tx.ArrayRow(array); {
	case row == nil:
		return nil
	case row.State == v1.JobState_PAUSED:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.RetryPaused, array)
	case row.Stop == v1.StopReason_CANCEL:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.BeingCanceled, array)
	}
	return nil
}

// Restart lets an array that is over go on with the elements that wait again.
func (tx *Tx) Restart(row *work.Job, why reason.Reason) {
	if !row.Terminal() {
		return
	}
	row.Dependencies = nil
	row.StartedAt, row.FinishedAt, row.ExitCode, row.ErrorType, row.ErrorMessage = 0, 0, nil, 0, ""
	tx.Reopen(row, why)
}
