package apply

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

func controlJob(tx *tx, c *work.ControlJob) any {
	old, ok := tx.Find(c.Job)
	if !ok || c.Tenant != "" && old.Tenant != c.Tenant {
		return work.ControlResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoJob, c.Job)}
	}
	if c.Key != "" {
		first, r := tx.recall(old.Tenant, c.Key, c.Fingerprint, c.Action)
		if r == nil && first != nil && first.Job != c.Job {
			r = kernel.Refuse(kernel.CodeAlreadyExists, reason.KeyOfOtherJob, c.Key)
		}
		if r != nil {
			return work.ControlResult{Refusal: r}
		}
		if first != nil {
			return work.ControlResult{Job: old, Duplicate: true}
		}
	}
	if r := tx.obey(old, c); r != nil {
		tx.arrays = arrays{}
		return work.ControlResult{Refusal: r}
	}
	if c.Key != "" {
		tx.remember(old.Tenant, c.Key, c.Fingerprint, false, c.Job, c.Action)
	}
	tx.flush()
	now, _ := tx.Find(c.Job)
	return work.ControlResult{Job: now}
}

// obey does what a command says to a job, to all elements of an array, or to an element that has no row.
func (tx *tx) obey(old *work.Job, c *work.ControlJob) (r *kernel.Refusal) {
	if old.Array != nil {
		return tx.controlArray(old, c)
	}
	if _, there := tx.Job(c.Job); !there {
		return tx.controlElement(old, c)
	}
	if again := c.Action == work.ActionResume || c.Action == work.ActionRetry; again {
		if r := tx.mayGoOn(old.ID.Submitted()); r != nil {
			return r
		}
	}
	j := *old
	switch c.Action {
	case work.ActionCancel:
		r = tx.cancel(&j, reason.Text(c.Reason), c.Vouch)
	case work.ActionPause:
		r = tx.pause(&j, reason.Text(c.Reason), c.SaveCheckpoint)
	case work.ActionResume:
		r = tx.resume(&j, reason.Text(c.Reason), c.Checkpoint)
	case work.ActionRetry:
		r = tx.retry(&j, c)
	default:
		r = kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownAction, uint8(c.Action))
	}
	if r != nil {
		return r
	}
	if c.Action == work.ActionResume || c.Action == work.ActionRetry {
		renew(&j, c)
	}
	tx.saveJob(old, &j)
	return nil
}

func orElse(said reason.Reason, otherwise reason.Code) reason.Reason {
	if said == "" {
		return reason.New(otherwise)
	}
	return said
}

// cancel ends a job that has no attempt at once, and asks a live attempt to stop. It overrides every other stop. Tasks on
// nodes that cannot be reached hear nothing of it: the job waits for their end, unless vouch says that they are dead.
func (tx *tx) cancel(j *work.Job, why reason.Reason, vouch bool) *kernel.Refusal {
	why = orElse(why, reason.CanceledByUser)
	switch {
	case j.Live():
		if vouch && len(tx.outOfReach(j)) == 0 {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NothingToVouch, j.ID)
		}
		if j.Stop != v1.StopReason_CANCEL {
			tx.askToStop(j, v1.StopReason_CANCEL, j.Grace, why)
		}
		if vouch {
			tx.endVouched(j)
		}
		return nil
	case j.State == v1.JobState_QUEUED, j.State == v1.JobState_PAUSED:
		j.FinishedAt, j.Held, j.SettlesAt = tx.now, 0, 0
		tx.move(j, v1.JobState_CANCELED, why)
		return nil
	}
	return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NothingToCancel, j.ID, j.State)
}

// outOfReach lists the ranks of a live job that have not ended and are on nodes that cannot be reached.
func (tx *tx) outOfReach(j *work.Job) []uint16 {
	var ranks []uint16
	for i := range j.Tasks {
		n, ok := tx.Node(j.Tasks[i].Node)
		if j.Tasks[i].State != v1.TaskState_ENDED && (!ok || n.UnreachableSince != 0) {
			ranks = append(ranks, uint16(i))
		}
	}
	return ranks
}

// endVouched ends the tasks that are out of reach. Nothing waits for them any more: a later attempt may run anywhere.
func (tx *tx) endVouched(j *work.Job) {
	ranks := tx.outOfReach(j)
	j.Tasks = slices.Clone(j.Tasks)
	for _, rank := range ranks {
		tx.endTask(j, rank, nil, v1.ErrorType_NODE_LOST, reason.New(reason.TaskVouchedDead, j.Tasks[rank].Node), tx.now, tx.now)
	}
	tx.advance(j)
}

func (tx *tx) pause(j *work.Job, why reason.Reason, save bool) *kernel.Refusal {
	why = orElse(why, reason.PausedByUser)
	switch {
	case j.State == v1.JobState_PAUSED || j.Live() && j.Stop == v1.StopReason_PAUSE:
		return nil
	case j.State == v1.JobState_QUEUED:
		j.Held, j.SettlesAt = 0, 0
		tx.move(j, v1.JobState_PAUSED, why)
		return nil
	case !j.Live():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotPause, j.ID, j.State)
	case j.Stop == v1.StopReason_CANCEL:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.BeingCanceled, j.ID)
	case j.Ending != nil || j.Stop == v1.StopReason_TIME_LIMIT:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.AttemptEnding, j.ID, j.Reason)
	}
	grace := j.Grace
	if !save {
		grace = 0
	}
	tx.askToStop(j, v1.StopReason_PAUSE, grace, why)
	return nil
}

func (tx *tx) resume(j *work.Job, why reason.Reason, from ident.Checkpoint) *kernel.Refusal {
	if j.State == v1.JobState_QUEUED && from == 0 {
		return nil
	}
	if j.State != v1.JobState_PAUSED {
		said := reason.CannotResume
		if j.Terminal() {
			said = reason.CannotResumeFinished
		}
		return kernel.Refuse(kernel.CodeFailedPrecondition, said, j.ID, j.State)
	}
	if r := tx.admitCheckpoint(j.Tenant, from); r != nil {
		return r
	}
	if j.Attempt == 0 {
		if hopeless := tx.hopeless(j); hopeless != "" {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CanNeverRun, j.ID, hopeless)
		}
	}
	j.Streak = work.Streak{}
	tx.requeue(j, &work.Ending{}, orElse(why, reason.ResumedByUser))
	tx.startFresh(j, from)
	return nil
}

func (tx *tx) retry(j *work.Job, c *work.ControlJob) *kernel.Refusal {
	switch {
	case j.State == v1.JobState_SUCCEEDED:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.RetrySucceeded, j.ID)
	case j.State == v1.JobState_PAUSED:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.RetryPaused, j.ID)
	case !j.Terminal():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotRetry, j.ID, j.State)
	}
	if _, ok := tx.Queue(j.Queue); !ok {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueOfJobGone, j.Queue, j.ID, tx.QueueNames())
	}
	if r := tx.admitCheckpoint(j.Tenant, c.Checkpoint); r != nil {
		return r
	}
	if c.Shape != nil {
		shape := *c.Shape
		if r := tx.admitShape(&shape); r != nil {
			return r
		}
		j.Shape = shape
		tx.Share(j)
	}
	if r := tx.admitMore(j.Tenant, 1); r != nil {
		return r
	}
	if c.Spec != nil {
		j.Spec = c.Spec
	}
	j.Retries, j.Streak = work.RetryCounts{}, work.Streak{}
	// A user who retries a job wants it to run: what it waited for in vain is not asked for again.
	j.Dependencies = nil
	// The nodes that failed it may be mended. Tasks that may still be alive are not made harmless by that.
	j.RetriedAt = j.Attempt
	tx.requeue(j, &work.Ending{ErrorType: j.ErrorType, ExitCode: j.ExitCode}, orElse(reason.Text(c.Reason), reason.RetriedByUser))
	tx.startFresh(j, c.Checkpoint)
	return nil
}

// startFresh gives up the tasks of an attempt that is over, and sets where the next one goes on from.
func (tx *tx) startFresh(j *work.Job, from ident.Checkpoint) {
	j.Tasks = nil
	if from == 0 {
		return
	}
	j.ResumeFrom, j.ChosenAt = from, j.Attempt
}
