package lifecycle

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/notices"
)

// announce adds the notices of a change of a row; old is nil for a new job. It compares rows, so that no verb can forget one.
func (tx *Tx) announce(old, j *work.Job) {
	if j.Notices == nil {
		return
	}
	var was notices.Moment
	is := momentOf(j)
	if old != nil {
		was = momentOf(old)
		// A short one has started and ended in the same entry.
		is.Runs = is.Runs || is.Over && old.Live() && j.StartedAt != 0
	}
	j.Notices = j.Notices.After(was, is, tx.Now)
}

func momentOf(j *work.Job) notices.Moment {
	return notices.Moment{
		Waits: j.State == v1.JobState_QUEUED && j.Held == 0, Runs: j.State == v1.JobState_RUNNING, Over: j.Terminal(),
		Failed: j.State != v1.JobState_SUCCEEDED && j.State != v1.JobState_CANCELED,
		Array:  j.Array != nil, Broken: j.Array != nil && j.Array.AnyFailed(),
	}
}

// AddJob puts in a new job.
func (tx *Tx) AddJob(j *work.Job) {
	tx.announce(nil, j)
	tx.PutJob(nil, j)
}

// TellWaiting has the URLs told of the jobs that have waited for too long, most of them at most; true: there are more.
func (tx *Tx) TellWaiting(most int) (more bool) {
	for range most {
		tx.Flush()
		id, ok := tx.Impatient(tx.Now)
		if !ok {
			return false
		}
		old, _ := tx.Job(id)
		tx.Tell(old, old.Notices.Overdue(tx.Now))
	}
	return true
}

// Tell puts in a job whose notices have changed.
func (tx *Tx) Tell(old *work.Job, n *notices.Notices) {
	j := *old
	j.Notices, j.UpdatedAt, j.Revision = n, tx.Now, tx.Index
	tx.PutJob(old, &j)
}
