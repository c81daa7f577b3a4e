package jobverbs

import (
	"hash/fnv"
	"math"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/windows"
)

// UpdateJob changes what a job asks for, before it is over: of one that waits everything below, of one that has an attempt what does
// not touch its places. The id, the key and the tenant stay.
type UpdateJob struct {
	Tenant string        `cbor:"1,keyasint,omitempty"`
	Job    ident.Job     `cbor:"2,keyasint,omitempty"`
	Actor  *access.Actor `cbor:"3,keyasint,omitempty"`
	// Was is the digest of the request that was changed (SpecDigest): a job that was changed meanwhile is not overwritten.
	Was uint64 `cbor:"4,keyasint,omitempty"`
	// Set says which fields of To count, beside Spec, which always does.
	Set Fields `cbor:"5,keyasint,omitempty"`
	To  NewJob `cbor:"6,keyasint,omitempty"`
	// Said lists the changes in words, for the audit log.
	Said string `cbor:"7,keyasint,omitempty"`
}

// Fields is a set of the fields of a job that UpdateJob can change.
type Fields uint32

// The fields. SetLimit is MaxRuntime and Notice.
const (
	SetName Fields = 1 << iota
	SetLabels
	SetPriority
	SetLimit
	SetRetry
	SetPreemptible
	SetQueue
	SetShape
	SetNotBefore

	// waitingOnly are the fields that a live attempt was placed by.
	waitingOnly = SetQueue | SetShape | SetNotBefore
	// stays are the fields that say how long an attempt may keep its places.
	stays  = SetLimit | SetRetry | SetPreemptible
	setAll = SetNotBefore<<1 - 1
)

// SpecDigest distinguishes the requests of a job from each other (FNV-1a).
func SpecDigest(spec []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(spec)
	return h.Sum64()
}

// CommandNumber implements kernel.Command.
func (UpdateJob) CommandNumber() uint16 { return 74 }

// steerGate keeps from older replicas what they do not know: jobs that are changed, held, or resumed while they are being paused.
var steerGate = level.NewGate(2, "changing and holding jobs, and resuming them while they stop")

// AtLevel implements kernel.Leveled.
func (c UpdateJob) AtLevel(at level.Level) (kernel.Command, error) { return c, steerGate.Check(at) }

func init() { verbs.Add(lifecycle.Verb("UpdateJob", updateJob, auditUpdateJob)) }

func updateJob(tx *lifecycle.Tx, c *UpdateJob) ControlResult {
	old, ok := tx.Find(c.Job)
	if !ok || c.Tenant != "" && old.Tenant != c.Tenant {
		return ControlResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoJob, c.Job)}
	}
	if r := mayUpdate(old, c); r != nil {
		return ControlResult{Refusal: r}
	}
	if old.Array != nil {
		return updateArray(tx, old, c)
	}
	j := *old
	if r := update(tx, &j, c, c.Set); r != nil {
		return ControlResult{Refusal: r}
	}
	if r := mayStay(tx, old, &j, c.Set); r != nil {
		return ControlResult{Refusal: r}
	}
	tx.EmitJob(&j, j.State)
	tx.SaveJob(old, &j)
	releasePlaces(tx, j.ID, c.Set)
	return ControlResult{Job: &j}
}

// updateArray changes an array and its elements that are not over. Elements that run keep the shape that they were placed by, with
// the request that goes with it, and the limit that others count on.
func updateArray(tx *lifecycle.Tx, old *work.Job, c *UpdateJob) ControlResult {
	if c.Set&(SetQueue|SetNotBefore) != 0 && begun(tx, old) {
		return ControlResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.UpdateBegunArray, old.ID)}
	}
	row := tx.EditArray(old.ID)
	if r := update(tx, row, c, c.Set); r != nil {
		tx.ForgetEdits()
		return ControlResult{Refusal: r}
	}
	tx.EmitJob(row, row.State)
	var changed []ident.Job
	eachElement(tx, row.ID, func(j *work.Job) bool {
		if j.Terminal() {
			return false
		}
		was, set := *j, c.Set
		if j.Live() {
			set &^= waitingOnly
		}
		if j.Stop == v1.StopReason_TIME_LIMIT {
			set &^= SetLimit
		}
		if update(tx, j, c, set) != nil {
			return false
		}
		if mayStay(tx, &was, j, set) != nil {
			*j, set = was, set&^stays
			if update(tx, j, c, set) != nil {
				return false
			}
		}
		if c.Set&^set&SetShape != 0 {
			j.Spec = was.Spec
		}
		changed = append(changed, j.ID)
		return true
	})
	tx.Flush()
	releasePlaces(tx, old.ID, c.Set)
	for _, id := range changed {
		if j, ok := tx.Job(id); ok && j.State == v1.JobState_QUEUED {
			releasePlaces(tx, id, c.Set)
		}
	}
	now, _ := tx.Find(c.Job)
	return ControlResult{Job: now}
}

// begun says whether elements of an array have rows, which say where they belong.
func begun(tx *lifecycle.Tx, array *work.Job) bool {
	for range tx.Elements(array.ID, 0) {
		return true
	}
	return array.StartedAt != 0
}

// mayUpdate says why a job cannot be changed so; nil: it can.
func mayUpdate(old *work.Job, c *UpdateJob) *kernel.Refusal {
	if array, _, is := old.ID.Element(); is {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.UpdateElement, old.ID, array)
	}
	switch {
	case c.Set&^setAll != 0:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownAction, uint8(c.Set>>24))
	case SpecDigest(old.Spec) != c.Was:
		return kernel.Refuse(kernel.CodeAborted, reason.JobChanged, old.ID)
	case old.Terminal():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotUpdate, old.ID, old.State)
	case old.Stop == v1.StopReason_CANCEL:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.BeingCanceled, old.ID)
	case old.Live() && c.Set&waitingOnly != 0:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.UpdateLive, old.ID, old.State)
	case old.Live() && c.Set&SetLimit != 0 && old.Stop == v1.StopReason_TIME_LIMIT:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.AttemptEnding, old.ID, old.Reason)
	case c.Set&SetLabels != 0:
		return mayLabel(old, c.To.Labels)
	}
	return nil
}

// mayLabel keeps the labels by which the state knows evaluations, and those of a schedule's jobs.
func mayLabel(old *work.Job, to map[string]string) *kernel.Refusal {
	if old.Evaluation() != (to[work.EvaluationLabel] == work.EvaluationValue) {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.LabelStays, work.EvaluationLabel)
	}
	if old.Labels[work.ScheduleLabel] != to[work.ScheduleLabel] {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.LabelStays, work.ScheduleLabel)
	}
	return nil
}

// mayStay says why a live attempt may not have another limit, or stop to yield: its time is over by then, or others count on the
// places that it was to leave. Others do not count on more than they did before.
func mayStay(tx *lifecycle.Tx, old, j *work.Job, set Fields) *kernel.Refusal {
	if !old.Live() || set&stays == 0 {
		return nil
	}
	if ran := tx.Now - old.StartedAt; set&SetLimit != 0 && old.StartedAt != 0 && j.MaxRuntime > 0 && j.MaxRuntime-max(0, j.Notice) <= ran {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.LimitPassed, j.ID, ran)
	}
	for i := range old.Tasks {
		t := &old.Tasks[i]
		if t.State == v1.TaskState_ENDED {
			continue
		}
		for w := range tx.WindowsOn(t.Node) {
			if w.From > tx.Now && !(w.Kind == windows.Reservation && w.Tenant == j.Tenant) && leavesBy(tx, old, w.From) && !leavesBy(tx, j, w.From) {
				return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NodeKept, t.Node, w.Name)
			}
		}
		before, after := leaves(tx, old), leaves(tx, j)
		for p := range tx.Promises() {
			for k := range p.Tasks {
				if p.Tasks[k].Node == t.Node && before <= p.StartAt && after > p.StartAt {
					return kernel.Refuse(kernel.CodeFailedPrecondition, reason.PlacesPromised, t.Node)
				}
			}
		}
	}
	return nil
}

// leaves is when promises take a live job to have given back its places.
func leaves(tx *lifecycle.Tx, j *work.Job) int64 {
	if at := promises.Leaves(j, tx.Now, tx.Now); at != 0 {
		return at
	}
	return math.MaxInt64
}

// leavesBy says whether a live job is gone from its places by a time, by its limit or because it yields.
func leavesBy(tx *lifecycle.Tx, j *work.Job, at int64) bool {
	if windows.Yields(j) {
		return true
	}
	began := j.StartedAt
	if began == 0 {
		began = tx.Now
	}
	return j.MaxRuntime > 0 && began+j.MaxRuntime <= at
}

// update changes the fields of a set, and what follows from them.
func update(tx *lifecycle.Tx, j *work.Job, c *UpdateJob, set Fields) *kernel.Refusal {
	to := &c.To
	if j.Submission() {
		if r := tx.AdmitSpec(j.Tenant, len(to.Spec)-len(j.Spec)); r != nil {
			return r
		}
	}
	j.Spec = to.Spec
	if set&SetName != 0 {
		j.Name = to.Name
	}
	if set&SetLabels != 0 {
		j.Labels = to.Labels
	}
	if set&SetPriority != 0 {
		if to.Priority > work.MaxPriority {
			return kernel.Refuse(kernel.CodeInvalidArgument, reason.PriorityOutOfRange, work.MaxPriority, to.Priority)
		}
		j.Priority = to.Priority
	}
	if set&SetRetry != 0 {
		if to.Retry.On&^work.RetryAll != 0 {
			return kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownRetryCause)
		}
		j.Retry = to.Retry
	}
	if set&SetPreemptible != 0 {
		j.Preemptible = to.Preemptible
	}
	if set&SetQueue != 0 {
		if _, ok := tx.Queue(to.Queue); !ok {
			return kernel.Refuse(kernel.CodeInvalidArgument, reason.NoQueueForJob, to.Queue, tx.QueueNames())
		}
		j.Queue = to.Queue
	}
	if set&SetShape != 0 {
		shape := to.Shape
		if r := admitShape(tx, &shape); r != nil {
			return r
		}
		j.Shape = shape
	}
	if set&SetLimit != 0 {
		limit(j, to.MaxRuntime, to.Notice)
	}
	j.Term = work.TermOf(j)
	tx.Share(j)
	if set&SetNotBefore != 0 {
		j.NotBefore = to.NotBefore
		if j.State == v1.JobState_QUEUED {
			j.Held = tx.Holds(j)
			j.Reason = work.HoldReason(j)
		}
	}
	return nil
}

// limit sets the time limit of a job, and the time of its notice.
func limit(j *work.Job, runtime, notice int64) {
	j.MaxRuntime, j.Notice = min(max(runtime, 0), work.MaxDuration), 0
	if j.MaxRuntime > 0 {
		if j.Notice = min(notice, j.MaxRuntime); j.Notice == 0 {
			j.Notice = work.DefaultNotice(j.MaxRuntime, j.Grace)
		}
	}
	j.Term = work.TermOf(j)
}

// releasePlaces gives up the places that were kept or promised to a job for something else than it asks for now.
func releasePlaces(tx *lifecycle.Tx, id ident.Job, set Fields) {
	if c, kept := tx.ClaimOf(id); kept && set&waitingOnly != 0 {
		tx.EndClaim(c)
	}
	if p, promised := tx.PromiseOf(id); promised && set&(waitingOnly|stays) != 0 {
		tx.EndPromise(p)
	}
}

func auditUpdateJob(tx *kernel.Tx, c *UpdateJob, result ControlResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: actionUpdateJob, Job: c.Job, Message: reason.Text(c.Said)}, result.Refusal)
}

var actionUpdateJob = access.DefineAction(88, "job.update", access.AboutJobs)
