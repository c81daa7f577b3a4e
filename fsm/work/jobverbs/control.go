package jobverbs

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/work/keys"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// ControlJob is a user's will about one job.
type ControlJob struct {
	// Tenant must own the job; empty: not checked.
	Tenant string      `cbor:"1,keyasint,omitempty"`
	Job    ident.Job   `cbor:"2,keyasint,omitempty"`
	Action work.Action `cbor:"3,keyasint,omitempty"`
	Reason string      `cbor:"4,keyasint,omitempty"`
	// SaveCheckpoint (pause): give the process its grace period.
	SaveCheckpoint bool `cbor:"5,keyasint,omitempty"`
	// Checkpoint (resume, retry) to go on from; 0: the newest.
	Checkpoint  ident.Checkpoint `cbor:"6,keyasint,omitempty"`
	Key         string           `cbor:"7,keyasint,omitempty"`
	Fingerprint uint64           `cbor:"8,keyasint,omitempty"`
	// Spec and Shape (retry) replace those of the job when set.
	Spec  []byte      `cbor:"9,keyasint,omitempty"`
	Shape *work.Shape `cbor:"10,keyasint,omitempty"`
	// Credentials (resume, retry) replace those of the job when set.
	Credentials []byte        `cbor:"11,keyasint,omitempty"`
	Actor       *access.Actor `cbor:"12,keyasint,omitempty"`
	// Vouch (cancel): the caller says that the job's tasks on unreachable nodes are dead.
	Vouch bool `cbor:"13,keyasint,omitempty"`
	// Waits (retry): a job that never started goes on waiting for those of its dependencies that are not over.
	Waits bool `cbor:"14,keyasint,omitempty"`
	// Why stands for Reason when the state itself has the job controlled.
	Why reason.Reason `cbor:"-"`
}

// CommandNumber implements kernel.Command.
func (ControlJob) CommandNumber() uint16 { return 2 }

// AtLevel implements kernel.Leveled.
func (c ControlJob) AtLevel(at level.Level) (kernel.Command, error) {
	if c.Action == work.ActionHold || c.Action == work.ActionRelease {
		return c, steerGate.Check(at)
	}
	c.Waits = c.Waits && steerGate.Open(at)
	return c, nil
}

func (c *ControlJob) why() reason.Reason {
	if c.Why != "" {
		return c.Why
	}
	return reason.Text(c.Reason)
}

func init() { verbs.Add(lifecycle.Verb("ControlJob", Control, auditControlJob)) }

// ControlResult is the job as it is after the command, or why nothing was done.
type ControlResult struct {
	Job     *work.Job
	Refusal *kernel.Refusal
	// Duplicate: an earlier command with the same key did it; Job is the job as it is now.
	Duplicate bool
}

func Control(tx *lifecycle.Tx, c *ControlJob) ControlResult {
	old, ok := tx.Find(c.Job)
	if !ok || c.Tenant != "" && old.Tenant != c.Tenant {
		return ControlResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoJob, c.Job)}
	}
	if c.Key != "" {
		first, r := keys.Recall(&tx.Ring, old.Tenant, c.Key, c.Fingerprint, c.Action, tx.Now)
		if r == nil && first != nil && first.Job != c.Job {
			r = kernel.Refuse(kernel.CodeAlreadyExists, reason.KeyOfOtherJob, c.Key)
		}
		if r != nil {
			return ControlResult{Refusal: r}
		}
		if first != nil {
			return ControlResult{Job: old, Duplicate: true}
		}
	}
	if r := obey(tx, old, c); r != nil {
		tx.ForgetEdits()
		return ControlResult{Refusal: r}
	}
	if c.Key != "" {
		keys.Remember(&tx.Ring, keys.IdempotencyKey{Tenant: old.Tenant, Key: c.Key, Fingerprint: c.Fingerprint, Job: c.Job, Action: c.Action}, false, tx.Now)
	}
	tx.Flush()
	now, _ := tx.Find(c.Job)
	return ControlResult{Job: now}
}

// obey does what a command says to a job, to all elements of an array, or to an element that has no row.
func obey(tx *lifecycle.Tx, old *work.Job, c *ControlJob) (r *kernel.Refusal) {
	if old.Array != nil {
		return controlArray(tx, old, c)
	}
	if _, there := tx.Job(c.Job); !there {
		return controlElement(tx, old, c)
	}
	if again := c.Action == work.ActionResume || c.Action == work.ActionRetry; again {
		if r := tx.MayGoOn(old.ID.Submitted()); r != nil {
			return r
		}
	}
	j := *old
	switch c.Action {
	case work.ActionCancel:
		r = Cancel(tx, &j, c.why(), c.Vouch)
	case work.ActionPause:
		if r = tx.Pause(&j, c.why(), c.SaveCheckpoint); r == nil {
			tx.KeepAtGate(&j)
		}
	case work.ActionResume:
		r = resume(tx, &j, c.why(), c.Checkpoint)
	case work.ActionRetry:
		r = retry(tx, &j, c)
	case work.ActionHold:
		r = hold(&j, c.why())
	case work.ActionRelease:
		r = release(tx, &j)
	default:
		r = kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownAction, uint8(c.Action))
	}
	if r != nil {
		return r
	}
	if c.Action == work.ActionResume || c.Action == work.ActionRetry {
		renew(&j, c)
	}
	if c.Action == work.ActionHold || c.Action == work.ActionRelease {
		tx.EmitJob(&j, j.State)
	}
	tx.SaveJob(old, &j)
	return nil
}

// Cancel ends a job that has no attempt at once, and asks a live attempt to stop. It overrides every other stop. Tasks on
// nodes that cannot be reached hear nothing of it: the job waits for their end, unless vouch says that they are dead.
func Cancel(tx *lifecycle.Tx, j *work.Job, why reason.Reason, vouch bool) *kernel.Refusal {
	why = lifecycle.OrElse(why, reason.CanceledByUser)
	switch {
	case j.Live():
		if vouch && len(outOfReach(tx, j)) == 0 {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NothingToVouch, j.ID)
		}
		if j.Stop != v1.StopReason_CANCEL {
			tx.AskToStop(j, v1.StopReason_CANCEL, j.Grace, why)
			executions.EndGates(tx.Entry, j.ID)
		}
		if vouch {
			endVouched(tx, j)
		}
		return nil
	case j.State == v1.JobState_QUEUED, j.State == v1.JobState_PAUSED:
		j.FinishedAt, j.Held, j.SettlesAt = tx.Now, 0, 0
		tx.Move(j, v1.JobState_CANCELED, why)
		return nil
	}
	return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NothingToCancel, j.ID, j.State)
}

// outOfReach lists the ranks of a live job that have not ended and are on nodes that cannot be reached.
func outOfReach(tx *lifecycle.Tx, j *work.Job) []uint16 {
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
func endVouched(tx *lifecycle.Tx, j *work.Job) {
	ranks := outOfReach(tx, j)
	j.Tasks = slices.Clone(j.Tasks)
	for _, rank := range ranks {
		tx.EndTask(j, rank, nil, v1.ErrorType_NODE_LOST, reason.New(reason.TaskVouchedDead, j.Tasks[rank].Node), tx.Now, tx.Now)
	}
	tx.Advance(j)
}

func resume(tx *lifecycle.Tx, j *work.Job, why reason.Reason, from ident.Checkpoint) *kernel.Refusal {
	if j.State == v1.JobState_QUEUED && j.Held&work.HoldUser != 0 {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.ResumeHeld, j.ID)
	}
	if j.State == v1.JobState_QUEUED && from == 0 {
		return nil
	}
	if stopping := j.Live() && j.Stop == v1.StopReason_PAUSE && tx.Entry.Open(steerGate); j.State != v1.JobState_PAUSED && !stopping {
		said := reason.CannotResume
		if j.Terminal() {
			said = reason.CannotResumeFinished
		}
		return kernel.Refuse(kernel.CodeFailedPrecondition, said, j.ID, j.State)
	}
	if d := executions.Of(tx.Entry.State).ClosedGate(j.ID); d != nil {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.ResumeAtGate, j.ID, d.ID)
	}
	if r := admitCheckpoint(tx, j.Tenant, from); r != nil {
		return r
	}
	if j.Live() {
		// It waits for its next attempt when this one has stopped.
		j.GoOn, j.Reason = true, reason.New(reason.GoesOnWhenStopped)
		if from != 0 {
			j.ResumeFrom, j.ChosenAt = from, j.Attempt
		}
		tx.EmitJob(j, j.State)
		return nil
	}
	if j.Attempt == 0 {
		if hopeless := tx.Hopeless(j); hopeless != "" {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CanNeverRun, j.ID, hopeless)
		}
	}
	j.Streak = work.Streak{}
	tx.Requeue(j, &work.Ending{}, lifecycle.OrElse(why, reason.ResumedByUser))
	startFresh(tx, j, from)
	return nil
}

func retry(tx *lifecycle.Tx, j *work.Job, c *ControlJob) *kernel.Refusal {
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
	if r := admitCheckpoint(tx, j.Tenant, c.Checkpoint); r != nil {
		return r
	}
	if c.Shape != nil {
		shape := *c.Shape
		if r := admitShape(tx, &shape); r != nil {
			return r
		}
		j.Shape = shape
		tx.Share(j)
	}
	if r := tx.AdmitMore(j.Tenant, 1); r != nil {
		return r
	}
	if c.Spec != nil {
		j.Spec = c.Spec
	}
	if r := admitAgain(tx, j); r != nil {
		return r
	}
	j.Retries, j.Streak = work.RetryCounts{}, work.Streak{}
	// A user who retries a job wants it to run: a dependency that it waited for in vain is not asked for again.
	j.Dependencies = tx.OpenDependencies(j, c.Waits)
	// The nodes that failed it may be mended. Tasks that may still be alive are not made harmless by that.
	j.RetriedAt = j.Attempt
	tx.Requeue(j, &work.Ending{ErrorType: j.ErrorType, ExitCode: j.ExitCode}, lifecycle.OrElse(c.why(), reason.RetriedByUser))
	startFresh(tx, j, c.Checkpoint)
	return nil
}

// admitAgain says why what is over may not be unfinished again; nil: it may. With an element its array is.
func admitAgain(tx *lifecycle.Tx, j *work.Job) *kernel.Refusal {
	if j.SpecDropped {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.SpecDropped, j.ID)
	}
	if array, _, element := j.ID.Element(); element {
		j, _ = tx.Job(array)
	}
	if !j.Terminal() {
		return nil
	}
	return tx.AdmitSubmission(j.Tenant, len(j.Spec))
}

// startFresh gives up the tasks of an attempt that is over, and sets where the next one goes on from.
func startFresh(tx *lifecycle.Tx, j *work.Job, from ident.Checkpoint) {
	j.Tasks = nil
	if from == 0 {
		return
	}
	j.ResumeFrom, j.ChosenAt = from, j.Attempt
}

// auditOfControl has the action in the audit log of each action on a job.
var auditOfControl = map[work.Action]access.AuditAction{
	work.ActionCancel: AuditJobCancel, work.ActionPause: AuditJobPause, work.ActionResume: AuditJobResume, work.ActionRetry: AuditJobRetry,
	work.ActionHold: AuditJobHold, work.ActionRelease: AuditJobRelease,
}

func auditControlJob(tx *kernel.Tx, c *ControlJob, result ControlResult) {
	res := result
	if action, ok := auditOfControl[c.Action]; ok && !res.Duplicate {
		message := reason.Text(c.Reason)
		if c.Vouch {
			message = reason.New(reason.Vouched, message)
		}
		access.Record(tx, c.Actor, access.AuditRecord{Action: action, Job: c.Job, Message: message}, res.Refusal)
	}
}

// AuditJobCancel is the action in the audit log.
var AuditJobCancel = access.DefineAction(2, "job.cancel", access.AboutJobs)

// AuditJobPause is the action in the audit log.
var AuditJobPause = access.DefineAction(3, "job.pause", access.AboutJobs)

// AuditJobResume is the action in the audit log.
var AuditJobResume = access.DefineAction(4, "job.resume", access.AboutJobs)

// AuditJobRetry is the action in the audit log.
var AuditJobRetry = access.DefineAction(5, "job.retry", access.AboutJobs)
