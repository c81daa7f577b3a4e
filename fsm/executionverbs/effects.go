package executionverbs

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// Effect is something that a step does outside of its frame. One of the fields after Timeout is set, or Err.
type Effect struct {
	// Wait is the number of its wait; its result comes under it.
	Wait uint32 `cbor:"1,keyasint,omitempty"`
	Path string `cbor:"2,keyasint,omitempty"`
	Node string `cbor:"3,keyasint,omitempty"`
	// Timeout bounds the wait; nanoseconds. 0: the default of its kind.
	Timeout int64 `cbor:"4,keyasint,omitempty"`
	// Cancel gives the wait up.
	Cancel bool `cbor:"5,keyasint,omitempty"`
	// Timer waits for a time After (nanoseconds), or until a time At.
	Timer bool  `cbor:"6,keyasint,omitempty"`
	After int64 `cbor:"7,keyasint,omitempty"`
	At    int64 `cbor:"8,keyasint,omitempty"`
	// Job submits a job. Until says what is waited for.
	Job   *jobverbs.NewJob `cbor:"9,keyasint,omitempty"`
	Until Until            `cbor:"10,keyasint,omitempty"`
	// Control pauses, resumes or cancels a job.
	Control *jobverbs.ControlJob `cbor:"11,keyasint,omitempty"`
	// Ask asks people. Its ids and its state are set here.
	Ask *executions.Decision `cbor:"12,keyasint,omitempty"`
	// Call starts an execution. Async: it is not waited for.
	Call  *Start `cbor:"13,keyasint,omitempty"`
	Async bool   `cbor:"14,keyasint,omitempty"`
	// Event waits for an event of this name.
	Event string `cbor:"15,keyasint,omitempty"`
	// Err says why the effect could not be tried.
	Err *executions.Failure `cbor:"16,keyasint,omitempty"`
}

// Until says when a job answers.
type Until uint8

// The moments.
const (
	UntilEnd Until = iota
	UntilStart
	UntilSubmitted
)

const (
	day = 24 * 3600 * int64(1e9)
	// defaultTimeout bounds waits for jobs, decisions and events that say nothing else, callTimeout those for executions.
	defaultTimeout = 30 * day
	callTimeout    = day
	// maxTimeout bounds every wait.
	maxTimeout = 366 * day
)

// edit returns a copy of an execution as it is in the book, to be changed. Effects may change the row, so
// nobody keeps a copy across one.
func edit(tx *lifecycle.Tx, id ident.Execution) *executions.Execution {
	e, _ := bookOf(tx).Execution(id)
	return executions.Edit(e)
}

// carryOut carries out an effect of an execution that is in the book.
func carryOut(tx *lifecycle.Tx, id ident.Execution, f *Effect) {
	if f.Cancel {
		giveUp(tx, id, f.Wait)
		return
	}
	e, _ := bookOf(tx).Execution(id)
	if last := len(e.Waits); last > 0 && e.Waits[last-1].ID >= f.Wait || f.Wait == 0 || last >= executions.MaxWaits {
		return // No interpreter computes that: waits have rising numbers, and a bound.
	}
	w := executions.Wait{ID: f.Wait, Path: clip(f.Path), Node: clip(f.Node), Since: tx.Now}
	timeout := f.Timeout
	switch {
	case timeout > 0:
	case f.Call != nil:
		timeout = callTimeout
	default:
		timeout = defaultTimeout
	}
	w.Deadline = tx.Now + min(timeout, maxTimeout)
	switch {
	case f.Err != nil:
		w.Kind, w.Done, w.Err = executions.ForEvent, true, clipFailure(f.Err)
	case f.Timer:
		w.Kind, w.Deadline = executions.ForTimer, 0
		if w.Due = f.At; w.Due == 0 {
			w.Due = tx.Now + min(max(f.After, 0), maxTimeout)
		}
		w.Due = min(max(w.Due, 1), tx.Now+10*maxTimeout)
	case f.Job != nil:
		submit(tx, e, f, &w)
	case f.Control != nil:
		control(tx, e, f, &w)
	case f.Ask != nil:
		ask(tx, e, f, &w)
	case f.Call != nil:
		call(tx, e, f, &w)
	default:
		w.Kind, w.Event = executions.ForEvent, clip(f.Event)
	}
	changed := edit(tx, id)
	changed.Waits = append(changed.Waits, w)
	executions.Save(tx.Entry, changed)
}

func refused(w *executions.Wait, r *kernel.Refusal) {
	w.Done = true
	w.Err = &executions.Failure{Code: refusalCodes[r.Code], Reason: r.Reason, Retryable: r.Code == kernel.CodeResourceExhausted}
}

var refusalCodes = map[kernel.Code]string{
	kernel.CodeInvalidArgument: "INVALID", kernel.CodeNotFound: "NOT_FOUND", kernel.CodeAlreadyExists: "CONFLICT",
	kernel.CodeResourceExhausted: "LIMIT", kernel.CodeFailedPrecondition: "CONFLICT", kernel.CodeAborted: "CONFLICT",
}

// submit submits a job in the name of the user who started the execution.
func submit(tx *lifecycle.Tx, e *executions.Execution, f *Effect, w *executions.Wait) {
	w.Kind, w.Started = executions.ForJob, f.Until == UntilStart
	job := *f.Job
	job.Tenant, job.User, job.Key = e.Tenant, e.User, ""
	made := jobverbs.Submit(tx, &job)
	tx.Flush()
	if made.Refusal != nil {
		refused(w, made.Refusal)
		return
	}
	w.Job, w.State = made.Job, made.State
	if j, ok := tx.Find(made.Job); f.Until == UntilSubmitted || !ok || j.Terminal() {
		w.Done = true
	}
}

func control(tx *lifecycle.Tx, e *executions.Execution, f *Effect, w *executions.Wait) {
	w.Kind, w.Job, w.Done = executions.ForJob, f.Control.Job, true
	c := *f.Control
	c.Tenant, c.Key = e.Tenant, ""
	res := jobverbs.Control(tx, &c)
	tx.Flush()
	if res.Refusal != nil {
		refused(w, res.Refusal)
		return
	}
	w.State = res.Job.State
}

// ask asks people.
func ask(tx *lifecycle.Tx, e *executions.Execution, f *Effect, w *executions.Wait) {
	w.Kind = executions.ForDecision
	id, ok := tx.Mint()
	if !ok || !executions.Askable(f.Ask) {
		refused(w, kernel.Refuse(kernel.CodeInvalidArgument, reason.BadExecution, "its question is too large"))
		return
	}
	d := *f.Ask
	d.ID, d.Tenant, d.Core, d.Execution, d.Wait, d.Flow = ident.Decision(id), e.Tenant, e.Core, e.ID, f.Wait, e.Flow
	d.Path, d.Node, d.Prompt = w.Path, w.Node, clip(d.Prompt)
	d.ExpiresAt = w.Deadline
	// The decision expires by itself; its wait has the same end, so that it has one in any case (I22).
	executions.Ask(tx.Entry, &d)
	w.Decision = d.ID
}

// call starts an execution of another flow.
func call(tx *lifecycle.Tx, e *executions.Execution, f *Effect, w *executions.Wait) {
	w.Kind = executions.ForExecution
	if e.Depth >= executions.MaxDepth {
		refused(w, kernel.Refuse(kernel.CodeFailedPrecondition, reason.CalledTooDeep, int64(executions.MaxDepth)))
		return
	}
	s := *f.Call
	s.Tenant, s.User, s.Key, s.Trigger, s.First = e.Tenant, e.User, "", "call", nil
	by := &caller{id: e.ID, wait: f.Wait, depth: e.Depth}
	if f.Async {
		by.wait = 0
	}
	made := start(tx, &s, by)
	if made.Refusal != nil {
		refused(w, made.Refusal)
		return
	}
	w.Execution, w.Done = made.Execution.ID, f.Async
	w.Started = f.Async
}

// giveUp ends a wait without a result, and what it waits for with it.
func giveUp(tx *lifecycle.Tx, id ident.Execution, wait uint32) {
	drop(tx, id, wait)
	e := edit(tx, id)
	e.Waits = slices.DeleteFunc(e.Waits, func(w executions.Wait) bool { return w.ID == wait })
	executions.Save(tx.Entry, e)
}

// drop makes an open wait done, and cancels what it is for.
func drop(tx *lifecycle.Tx, id ident.Execution, wait uint32) {
	e := edit(tx, id)
	w := e.Wait(wait)
	if w == nil || w.Done {
		return
	}
	// It is done before what it waits for ends, so that nothing wakes it.
	w.Done = true
	executions.Save(tx.Entry, e)
	switch w.Kind {
	case executions.ForJob:
		jobverbs.Control(tx, &jobverbs.ControlJob{Job: w.Job, Action: work.ActionCancel, Reason: "the execution " + id.String() + " does not wait for it any more"})
		tx.Flush()
	case executions.ForDecision:
		if d, ok := bookOf(tx).Decision(w.Decision); ok && d.Status == executions.Pending {
			changed := *d
			changed.Status = executions.DecisionCanceled
			executions.SaveDecision(tx.Entry, &changed)
		}
	case executions.ForExecution:
		if child, ok := bookOf(tx).Execution(w.Execution); ok && !child.Status.Over() {
			changed := executions.Edit(child)
			changed.Cancel, changed.ParentWait, changed.Why = true, 0, "the execution "+id.String()+" does not wait for it any more"
			executions.Save(tx.Entry, changed)
		}
	}
}

// finish ends an execution, gives up its waits, and wakes the one that called it. A failed one keeps its frame, to be retried.
func finish(tx *lifecycle.Tx, id ident.Execution, as executions.Status, output []byte, err *executions.Failure) {
	for _, w := range edit(tx, id).Waits {
		drop(tx, id, w.ID)
	}
	e := edit(tx, id)
	e.Waits, e.Status, e.Output, e.Err, e.FinishedAt, e.More = nil, as, output, err, tx.Now, false
	if as != executions.Failed {
		e.Frame = nil
	}
	executions.Save(tx.Entry, e)
	if e.Parent == 0 || e.ParentWait == 0 {
		return
	}
	executions.Wake(tx.Entry, e.Parent, e.ParentWait, func(w *executions.Wait) {
		switch as {
		case executions.Completed:
			w.Result = output
		case executions.Canceled:
			w.Err = &executions.Failure{Code: "CANCELED", Message: "the execution " + e.ID.String() + " was canceled"}
		default:
			w.Err = err
		}
	})
}
