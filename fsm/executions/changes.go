package executions

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// Save puts a changed execution in and tells watchers. The caller owns the row and its waits.
func Save(tx *kernel.Tx, e *Execution) {
	e.Settle()
	e.UpdatedAt, e.Revision = tx.Now(), tx.Index()
	Put(Of(tx.State), e)
	event.Emit(tx, event.Event{Topic: event.TopicExecution, Tenant: e.Tenant, Name: e.ID.String()})
}

// SaveDecision puts a changed decision in, with the notices of the change, and tells watchers.
func SaveDecision(tx *kernel.Tx, d *Decision) {
	old, _ := Of(tx.State).Decision(d.ID)
	d.announce(old, tx.Now())
	d.Revision = tx.Index()
	PutDecision(Of(tx.State), d)
	event.Emit(tx, event.Event{Topic: event.TopicDecision, Tenant: d.Tenant, Name: d.ID.String()})
}

// Edit returns a copy of an execution that the caller may change.
func Edit(old *Execution) *Execution {
	e := *old
	e.Waits, e.Steps = slices.Clone(old.Waits), slices.Clone(old.Steps)
	return &e
}

// Wake gives a wait its result, if it is still open.
func Wake(tx *kernel.Tx, id ident.Execution, wait uint32, result func(w *Wait)) {
	old, ok := Of(tx.State).Execution(id)
	if !ok || old.Status.Over() {
		return
	}
	e := Edit(old)
	w := e.Wait(wait)
	if w == nil || w.Done {
		return
	}
	w.Done = true
	result(w)
	Save(tx, e)
}

// JobMoved wakes the executions that wait for a job to run. A job that is restarted is PREEMPTED or LOST for a moment, so that a move
// does not say that it is over.
func JobMoved(tx *kernel.Tx, job ident.Job, to v1.JobState_Value) {
	if to == v1.JobState_QUEUED {
		settleGates(tx, job, false)
	}
	if to == v1.JobState_RUNNING {
		wakeWaiters(tx, job, to, func(w *Wait) bool { return w.Started })
	}
}

// JobEnded wakes the executions that wait for a job, and takes back the question at its gate. It is called in the entry that ends the
// job, so no execution waits for a job that is over, and no such job waits for people.
func JobEnded(tx *kernel.Tx, job ident.Job, as v1.JobState_Value) {
	settleGates(tx, job, true)
	wakeWaiters(tx, job, as, func(*Wait) bool { return true })
}

func wakeWaiters(tx *kernel.Tx, job ident.Job, state v1.JobState_Value, which func(w *Wait) bool) {
	t := Of(tx.State)
	if t == nil || t.jobs.Len() == 0 {
		return
	}
	var waits []jobWait
	t.jobs.AscendFrom(jobWait{job: job}, func(w jobWait) bool {
		if w.job == job {
			waits = append(waits, w)
		}
		return w.job == job
	})
	for _, found := range waits {
		e, _ := t.Execution(found.id)
		if which(e.Wait(found.wait)) {
			Wake(tx, found.id, found.wait, func(w *Wait) { w.State = state })
		}
	}
}

// EventWaits lists the waits for an event of a Core; of one execution, if it is not 0.
func EventWaits(t *Book, core ident.Core, name string, of ident.Execution) (ids []ident.Execution, waits []uint32) {
	t.events.AscendFrom(eventWait{core: core, name: name}, func(w eventWait) bool {
		if w.core != core || w.name != name {
			return false
		}
		if of == 0 || of == w.id {
			ids, waits = append(ids, w.id), append(waits, w.wait)
		}
		return true
	})
	return ids, waits
}

// Due is something that time does: to a wait of an execution, or to a decision.
type Due struct {
	Execution ident.Execution
	Wait      uint32
	Decision  ident.Decision
}

// FirstDue returns the first thing that is due; false: nothing is.
func FirstDue(t *Book, now int64) (Due, bool) {
	first, ok := t.timers.Min()
	if !ok || first.at > now {
		return Due{}, false
	}
	return Due{first.id, first.wait, first.decision}, true
}

// NextDue is when something is due next.
func NextDue(s *kernel.State) (int64, bool) {
	t := Of(s)
	if t.finished.Len() > MaxFinished {
		return 0, true
	}
	first, ok := t.timers.Min()
	return first.at, ok
}

// Excess returns the execution that ended first, if more are kept than the bound.
func Excess(t *Book) *Execution {
	if t.finished.Len() <= MaxFinished {
		return nil
	}
	first, _ := t.finished.Min()
	e, _ := t.Execution(first.id)
	return e
}

// Forget removes an execution that is over, with its decisions.
func Forget(t *Book, e *Execution) {
	for _, id := range t.DecisionsAskedBy(e.ID) {
		d, _ := t.Decision(id)
		RemoveDecision(t, d)
	}
	Remove(t, e)
}
