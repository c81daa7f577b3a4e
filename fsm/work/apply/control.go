package apply

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
)

func controlJob(tx *tx, c *work.ControlJob) any {
	old, ok := tx.Job(c.Job)
	if !ok || c.Tenant != "" && old.Tenant != c.Tenant {
		return work.ControlResult{Refusal: kernel.Refuse(kernel.CodeNotFound, "there is no job %s", c.Job)}
	}
	if c.Key != "" {
		first, r := tx.recall(old.Tenant, c.Key, c.Fingerprint, c.Action)
		if r == nil && first != nil && first.Job != c.Job {
			r = kernel.Refuse(kernel.CodeAlreadyExists, "the idempotency key %q was used before for another job: use a new key for a new request", c.Key)
		}
		if r != nil {
			return work.ControlResult{Refusal: r}
		}
		if first != nil {
			return work.ControlResult{Job: old, Duplicate: true}
		}
	}
	j := *old
	var r *kernel.Refusal
	switch c.Action {
	case work.ActionCancel:
		r = tx.cancel(&j, c.Reason, c.Vouch)
	case work.ActionPause:
		r = tx.pause(&j, c.Reason, c.SaveCheckpoint)
	case work.ActionResume:
		r = tx.resume(&j, c.Reason, c.Checkpoint)
	case work.ActionRetry:
		r = tx.retry(&j, c)
	default:
		r = kernel.Refuse(kernel.CodeInvalidArgument, "unknown action %d", c.Action)
	}
	if r != nil {
		return work.ControlResult{Refusal: r}
	}
	if c.Credentials != nil && (c.Action == work.ActionResume || c.Action == work.ActionRetry) {
		j.Credentials = c.Credentials
	}
	tx.saveJob(old, &j)
	if c.Key != "" {
		tx.remember(j.Tenant, c.Key, c.Fingerprint, false, j.ID, c.Action)
	}
	return work.ControlResult{Job: &j}
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// cancel ends a job that has no attempt at once, and asks a live attempt to stop. It overrides every other stop. Tasks on
// nodes that cannot be reached hear nothing of it: the job waits for their end, unless vouch says that they are dead.
func (tx *tx) cancel(j *work.Job, reason string, vouch bool) *kernel.Refusal {
	reason = orText(reason, "canceled by a user")
	switch {
	case j.Live():
		if vouch && len(tx.outOfReach(j)) == 0 {
			return kernel.Refuse(kernel.CodeFailedPrecondition, "no task of job %s is on a node that cannot be reached: cancel it without vouching for anything", j.ID)
		}
		if j.Stop != v1.StopReason_CANCEL {
			tx.askToStop(j, v1.StopReason_CANCEL, j.Grace, reason)
		}
		if vouch {
			tx.endVouched(j)
		}
		return nil
	case j.State == v1.JobState_QUEUED, j.State == v1.JobState_PAUSED:
		j.FinishedAt, j.Held, j.SettlesAt = tx.now, 0, 0
		tx.move(j, v1.JobState_CANCELED, reason)
		return nil
	}
	return kernel.Refuse(kernel.CodeFailedPrecondition, "job %s is %s already: there is nothing left to cancel", j.ID, j.State)
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
		tx.endTask(j, rank, nil, v1.ErrorType_NODE_LOST, "node "+j.Tasks[rank].Node+" cannot be reached, and whoever canceled the job vouched that its task there is dead", tx.now)
	}
	tx.advance(j)
}

func (tx *tx) pause(j *work.Job, reason string, save bool) *kernel.Refusal {
	reason = orText(reason, "paused by a user")
	switch {
	case j.State == v1.JobState_PAUSED || j.Live() && j.Stop == v1.StopReason_PAUSE:
		return nil
	case j.State == v1.JobState_QUEUED:
		j.Held, j.SettlesAt = 0, 0
		tx.move(j, v1.JobState_PAUSED, reason)
		return nil
	case !j.Live():
		return kernel.Refuse(kernel.CodeFailedPrecondition, "job %s is %s: only a job that waits or runs can be paused", j.ID, j.State)
	case j.Stop == v1.StopReason_CANCEL:
		return kernel.Refuse(kernel.CodeFailedPrecondition, "job %s is being canceled", j.ID)
	case j.Ending != nil || j.Stop == v1.StopReason_TIME_LIMIT:
		return kernel.Refuse(kernel.CodeFailedPrecondition, "the attempt of job %s is ending: %s", j.ID, j.Reason)
	}
	grace := j.Grace
	if !save {
		grace = 0
	}
	tx.askToStop(j, v1.StopReason_PAUSE, grace, reason)
	return nil
}

func (tx *tx) resume(j *work.Job, reason string, from ident.Checkpoint) *kernel.Refusal {
	if j.State == v1.JobState_QUEUED && from == 0 {
		return nil
	}
	if j.State != v1.JobState_PAUSED {
		hint := ""
		if j.Terminal() {
			hint = "; retry starts a finished job again"
		}
		return kernel.Refuse(kernel.CodeFailedPrecondition, "job %s is %s: only a paused job can be resumed%s", j.ID, j.State, hint)
	}
	if r := tx.admitCheckpoint(j.Tenant, from); r != nil {
		return r
	}
	if j.Attempt == 0 {
		if why := tx.hopeless(j); why != "" {
			return kernel.Refuse(kernel.CodeFailedPrecondition, "job %s can never run: %s", j.ID, why)
		}
	}
	j.Streak = work.Streak{}
	tx.requeue(j, &work.Ending{}, orText(reason, "resumed by a user"))
	tx.startFresh(j, from)
	return nil
}

func (tx *tx) retry(j *work.Job, c *work.ControlJob) *kernel.Refusal {
	switch {
	case j.State == v1.JobState_SUCCEEDED:
		return kernel.Refuse(kernel.CodeFailedPrecondition, "job %s has succeeded: submit it again to run it once more", j.ID)
	case j.State == v1.JobState_PAUSED:
		return kernel.Refuse(kernel.CodeFailedPrecondition, "job %s is paused: resume it", j.ID)
	case !j.Terminal():
		return kernel.Refuse(kernel.CodeFailedPrecondition, "job %s is %s: only a job that has failed, or was canceled, preempted or lost, can be retried", j.ID, j.State)
	}
	if _, ok := tx.Queue(j.Queue); !ok {
		return kernel.Refuse(kernel.CodeFailedPrecondition, "the queue %q of job %s is gone: the queues are %s", j.Queue, j.ID, tx.QueueNames())
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
	if r := tx.admitOneMore(j.Tenant); r != nil {
		return r
	}
	if c.Spec != nil {
		j.Spec = c.Spec
	}
	j.Retries, j.Streak = work.RetryCounts{}, work.Streak{}
	// Whoever retries a job wants it to run: what it waited for in vain is not asked for again.
	j.Dependencies = nil
	if tx.open(level.FreshRetries) {
		// The nodes that failed it may be mended. Tasks that may still be alive are not made harmless by that.
		j.RetriedAt = j.Attempt
	}
	tx.requeue(j, &work.Ending{ErrorType: j.ErrorType, ExitCode: j.ExitCode}, orText(c.Reason, "retried by a user"))
	tx.startFresh(j, c.Checkpoint)
	return nil
}

// startFresh gives up the tasks of an attempt that is over, and sets where the next one goes on from.
func (tx *tx) startFresh(j *work.Job, from ident.Checkpoint) {
	j.Tasks = nil
	if from == 0 {
		return
	}
	j.ResumeFrom = from
	if tx.open(level.FreshRetries) {
		j.ChosenAt = j.Attempt
	}
}
