package lifecycle

import (
	"fmt"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/overdraft"
	"github.com/mindcoordinator/mind/fsm/work/tables"
)

// SaveJob puts a changed job in the place of the old row, and settles those that waited for its end. old is nil when an
// element of an array begins.
func (tx *Tx) SaveJob(old, j *work.Job) {
	if _, edited := tx.arrays.rows[j.ID]; edited {
		panic(fmt.Sprintf("fsm: array %s is put in while changes of it wait for flush", j.ID))
	}
	j.UpdatedAt, j.Revision = tx.Now, tx.Index
	tx.follow(old, j)
	if j.Terminal() {
		j.Credentials = nil
	}
	tx.announce(old, j)
	tx.PutJob(old, j)
	if old != nil {
		tx.released(old, j)
		if old.MaxRuntime != 0 && overdraft.Concerns(j) {
			tx.ReopenHours(j.Tenant) // It has lost its time limit.
		}
	}
	if j.Terminal() && (old == nil || !old.Terminal()) {
		tx.settleDependents(j)
		executions.JobEnded(tx.Entry, j.ID, j.State)
	}
	if c, kept := tx.ClaimOf(j.ID); kept && (j.State != v1.JobState_QUEUED || c.IsHold() && j.Held&^work.HoldBackoff != 0) {
		tx.EndClaim(c) // It was canceled or paused meanwhile, or has to wait for all nodes of a recovered cluster.
	}
	if p, promised := tx.PromiseOf(j.ID); promised && !j.Waiting() {
		tx.EndPromise(p)
	}
	if old != nil && old.Live() && !j.Live() {
		tx.left(j.ID)
	}
}

// Move changes the state, and says so. A move that the table does not allow is a mistake of this package.
func (tx *Tx) Move(j *work.Job, to v1.JobState_Value, why reason.Reason) {
	can := work.CanMove
	if j.Array != nil {
		can = work.CanMoveArray
	}
	if !can(j.State, to) {
		panic(fmt.Sprintf("fsm: %s: no job moves from %s to %s", j.ID, j.State, to))
	}
	from := j.State
	j.State, j.Reason = to, why
	tx.EmitJob(j, from)
	executions.JobMoved(tx.Entry, j.ID, to)
}

func (tx *Tx) EmitJob(j *work.Job, from v1.JobState_Value) {
	tx.Emit(event.Event{
		Topic: event.TopicJob, Tenant: j.Tenant, Job: j.ID, Attempt: j.Attempt, From: from, To: j.State,
		Stop: j.Stop, Queue: j.Queue, Nodes: work.TaskNodes(j.Tasks),
	})
}

// AskToStop sets the stop intent of a live attempt.
func (tx *Tx) AskToStop(j *work.Job, stop v1.StopReason_Value, grace int64, why reason.Reason) {
	j.Stop, j.StopGrace, j.Reason, j.GoOn = stop, grace, why, false
	tx.EmitJob(j, j.State)
}

// EndTask makes one task ENDED. The first failure that nobody asked for is the cause of the attempt's end, and takes
// the rest of the gang with it. If a node or a GPU failed under another rank at that time, it is the cause instead: began
// is when. The caller owns j.Tasks.
func (tx *Tx) EndTask(j *work.Job, rank uint16, exit *int32, cause v1.ErrorType_Value, message reason.Reason, at, began int64) {
	t := &j.Tasks[rank]
	failed := cause != v1.ErrorType_UNSPECIFIED || exit == nil || *exit != 0
	if failed && cause == v1.ErrorType_UNSPECIFIED {
		cause = v1.ErrorType_EXIT_NONZERO
		if exit == nil {
			cause = v1.ErrorType_INTERNAL
		}
	}
	t.State, t.ExitCode, t.ErrorType, t.ErrorMessage, t.EndedAt, t.Transfer = v1.TaskState_ENDED, exit, cause, message, at, ""
	if t.StartedAt == 0 && exit != nil {
		t.StartedAt = at
	}
	ending := &work.Ending{Rank: rank, Node: t.Node, ExitCode: exit, ErrorType: cause, ErrorMessage: message}
	if failed && j.BroughtDownBy(ending, began) {
		j.Ending = ending
		tx.AskToStop(j, v1.StopReason_GANG, j.StopGrace, reason.New(reason.RankFailed, rank, ending.Why()))
		return
	}
	if !failed || j.Ending != nil || j.Stop != v1.StopReason_UNSPECIFIED {
		return
	}
	j.Ending = ending
	if len(j.Tasks) > 1 && !work.AllEnded(j.Tasks) {
		tx.AskToStop(j, v1.StopReason_GANG, j.Grace, reason.New(reason.RankFailed, rank, j.Ending.Why()))
	}
}

// LoseTask ends a task whose node is gone, and has been silent since some time. A task that may still be alive there is awaited.
func (tx *Tx) LoseTask(old *work.Job, rank uint16, why reason.Reason, loss *work.Loss, since int64) {
	if !old.Live() || int(rank) >= len(old.Tasks) || old.Tasks[rank].State == v1.TaskState_ENDED {
		return
	}
	j := *old
	j.Tasks = slices.Clone(old.Tasks)
	tx.EndTask(&j, rank, nil, v1.ErrorType_NODE_LOST, why, tx.Now, since)
	if old.Ending == nil && j.Ending != nil {
		coordinators.NoteHarm(tx.Entry.State, tx.Now, old.Token)
	}
	if j.Ending != old.Ending && loss != nil {
		j.Ending.Loss = loss
	}
	if loss != nil && (loss.How == work.LossDeclared || loss.How == work.LossGivenUp) {
		a := work.AwaitedTask{Node: j.Tasks[rank].Node, Attempt: j.Attempt, Rank: rank, Token: j.Token, Loss: *loss}
		if n, ok := tx.Node(a.Node); ok {
			a.Roster = n.RosterAcked
		}
		j.Await(a)
	}
	tx.Advance(&j)
	tx.SaveJob(old, &j)
}

// Advance moves a live job on to where its tasks are.
func (tx *Tx) Advance(j *work.Job) {
	started, running := false, true
	for i := range j.Tasks {
		t := &j.Tasks[i]
		started = started || t.State == v1.TaskState_STARTING || t.Ran()
		running = running && t.Ran()
	}
	if started && j.State == v1.JobState_ALLOCATED {
		tx.Move(j, v1.JobState_STARTING, j.Reason)
	}
	if running && j.State == v1.JobState_STARTING {
		j.StartedAt, j.Phase = tx.Now, v1.JobPhase_TRAINING
		tx.Move(j, v1.JobState_RUNNING, j.Reason)
	}
	if work.AllEnded(j.Tasks) {
		tx.finishAttempt(j)
	}
}

// finishAttempt gives back the leases of an attempt whose tasks have all ended, and moves the job to its outcome.
func (tx *Tx) finishAttempt(j *work.Job) {
	for i := range j.Tasks {
		tx.Release(tables.LeaseKey{Node: j.Tasks[i].Node, Job: j.ID, Rank: j.Tasks[i].Rank}, j)
	}
	tx.discharge(j)
	tx.Emit(event.Event{Topic: event.TopicLease, Tenant: j.Tenant, Job: j.ID, Attempt: j.Attempt, Queue: j.Queue, Nodes: work.TaskNodes(j.Tasks)})
	tx.outcome(j)
	for i := range j.Tasks {
		tx.emptied(j.Tasks[i].Node)
	}
	if j.State == v1.JobState_QUEUED {
		j.Tasks = nil
	}
}

// outcome moves the job of an attempt that is over. The leases are gone already.
func (tx *Tx) outcome(j *work.Job) {
	stop, ending, goOn := j.Stop, j.Ending, j.GoOn
	j.Stop, j.StopGrace, j.Ending, j.GoOn = v1.StopReason_UNSPECIFIED, 0, nil, false
	j.Phase = v1.JobPhase_UNSPECIFIED
	switch stop {
	case v1.StopReason_CANCEL:
		j.FinishedAt = tx.Now
		tx.Move(j, v1.JobState_CANCELED, j.Reason)
		return
	case v1.StopReason_PAUSE:
		j.ResumeFrom = tx.Newest(j)
		tx.Move(j, v1.JobState_PAUSED, j.Reason)
		if goOn {
			j.Streak, j.Reason = work.Streak{}, reason.New(reason.PausedByUser)
			tx.Requeue(j, &work.Ending{}, reason.New(reason.ResumedByUser))
			return
		}
		tx.passGate(j)
		return
	case v1.StopReason_PREEMPT:
		if tx.stopsForGood(j, v1.ErrorType_PREEMPTED, reason.PreemptedForGood) {
			return
		}
		j.Retries.Preempted++
		tx.Move(j, v1.JobState_PREEMPTED, j.Reason)
		tx.Requeue(j, &work.Ending{ErrorType: v1.ErrorType_PREEMPTED}, reason.New(reason.RequeuedAfterPreemption))
		return
	case v1.StopReason_DRAIN:
		tx.drained(j, j.Reason)
		return
	case v1.StopReason_TIME_LIMIT:
		if (j.Notice > 0 || j.MaxRuntime == 0) && work.AllSucceeded(j.Tasks) {
			break // It came to its own end before the limit.
		}
		why := reason.New(reason.RanTooLong)
		if j.MaxRuntime == 0 {
			why = reason.New(reason.EndedForHours) // No limit was set: the GPU hours of its tenant are used up.
		}
		tx.fail(j, v1.JobState_FAILED, &work.Ending{ErrorType: v1.ErrorType_TIME_LIMIT, ErrorMessage: why})
		return
	}
	if ending == nil {
		zero := int32(0)
		j.FinishedAt, j.ExitCode = tx.Now, &zero
		tx.Move(j, v1.JobState_SUCCEEDED, "")
		return
	}
	if ending.ErrorType == v1.ErrorType_DRAINED {
		// The node stopped it of its own accord: its agent was told to take the tasks along.
		tx.drained(j, ending.Why())
		return
	}
	if ending.ErrorType == v1.ErrorType_NODE_UNFIT && tx.unfit(j, ending) {
		return
	}
	tx.afterFailure(j, ending)
}

// drained puts back a job whose node was emptied; that costs it no retry.
func (tx *Tx) drained(j *work.Job, why reason.Reason) {
	if tx.stopsForGood(j, v1.ErrorType_DRAINED, reason.DrainedForGood) {
		return
	}
	j.Retries.Drained++
	tx.Move(j, v1.JobState_PREEMPTED, why)
	tx.Requeue(j, &work.Ending{ErrorType: v1.ErrorType_DRAINED}, reason.New(reason.RequeuedAfterDrain))
}

func (tx *Tx) fail(j *work.Job, to v1.JobState_Value, e *work.Ending) {
	j.FinishedAt, j.ExitCode, j.ErrorType, j.ErrorMessage = tx.Now, e.ExitCode, e.ErrorType, e.ErrorMessage
	tx.Move(j, to, e.Why())
}

// Newest is the checkpoint that the next attempt goes on from, if nobody says otherwise. Checkpoints that were saved before
// a user chose another one are not used.
func (tx *Tx) Newest(j *work.Job) ident.Checkpoint {
	if j.LastCheckpoint == 0 {
		return j.ResumeFrom
	}
	if j.ChosenAt != 0 {
		if c, ok := tx.Checkpoint(j.LastCheckpoint); !ok || c.Attempt <= j.ChosenAt {
			return j.ResumeFrom
		}
	}
	return j.LastCheckpoint
}

// Requeue makes a job wait for a new attempt. How the last one ended is remembered; a node in it is one that a counted
// failure speaks against.
func (tx *Tx) Requeue(j *work.Job, over *work.Ending, why reason.Reason) {
	if j.Attempt > 0 && (len(j.Past) == 0 || j.Past[len(j.Past)-1].Attempt != j.Attempt) {
		ended := j.FinishedAt
		for i := range j.Tasks {
			ended = max(ended, j.Tasks[i].EndedAt)
		}
		p := work.PastAttempt{
			Attempt: j.Attempt, Token: j.Token, Nodes: work.TaskNodes(j.Tasks), ExitCode: over.ExitCode, ErrorType: over.ErrorType,
			Reason: j.Reason, StartedAt: j.StartedAt, EndedAt: ended, Loss: over.Loss, FailedNode: over.Node,
		}
		if p.Reason == "" {
			p.Reason = over.Why()
		}
		from := max(0, len(j.Past)+1-work.MaxPastAttempts)
		j.Past = append(slices.Clone(j.Past[from:]), p)
	}
	j.ResumeFrom = tx.Newest(j)
	j.StartedAt, j.FinishedAt = 0, 0
	j.ExitCode, j.ErrorType, j.ErrorMessage = nil, v1.ErrorType_UNSPECIFIED, ""
	j.Held = tx.Holds(j)
	tx.HoldForRecovery(j)
	tx.Move(j, v1.JobState_QUEUED, why)
	tx.holdAtGate(j)
}
