package executionverbs

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// AdvanceExecutions advances executions, each for itself. The leader computes what they do next from their frames and the results of
// their waits.
type AdvanceExecutions struct {
	Advances []Advance `cbor:"1,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (AdvanceExecutions) CommandNumber() uint16 { return 64 }

// AtLevel implements kernel.Leveled.
func (c AdvanceExecutions) AtLevel(at level.Level) (kernel.Command, error) {
	return c, cores.Gate.Check(at)
}

func init() { verbs.Add(lifecycle.Verb("AdvanceExecutions", advanceExecutions, nil)) }

// Outcome says how an execution stands after an Advance.
type Outcome uint8

// The outcomes.
const (
	// GoesOn: it waits, or there is more to do.
	GoesOn Outcome = iota + 1
	Completes
	Fails
	IsCanceled
)

var outcomeNames = map[Outcome]string{GoesOn: "goes_on", Completes: "completed", Fails: "failed", IsCanceled: "canceled"}

// String names the outcome in metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// Advance is one step of an execution: its new frame with all that goes with it.
type Advance struct {
	Execution ident.Execution `cbor:"1,keyasint,omitempty"`
	// Seq is that of the frame from which the step was computed.
	Seq   uint64 `cbor:"2,keyasint,omitempty"`
	Frame []byte `cbor:"3,keyasint,omitempty"`
	// Used are the waits whose results the step has used.
	Used    []uint32               `cbor:"4,keyasint,omitempty"`
	Effects []Effect               `cbor:"5,keyasint,omitempty"`
	Events  []executions.Happening `cbor:"6,keyasint,omitempty"`
	Outcome Outcome                `cbor:"7,keyasint,omitempty"`
	// More: it ran out of fuel. Canceling: it has begun to cancel.
	More      bool                `cbor:"8,keyasint,omitempty"`
	Canceling bool                `cbor:"9,keyasint,omitempty"`
	Output    []byte              `cbor:"10,keyasint,omitempty"`
	Err       *executions.Failure `cbor:"11,keyasint,omitempty"`
}

// AdvancesResult has one result per advance, in order.
type AdvancesResult struct{ Results []Result }

func advanceExecutions(tx *lifecycle.Tx, c *AdvanceExecutions) AdvancesResult {
	results := make([]Result, len(c.Advances))
	for i := range c.Advances {
		results[i] = advance(tx, &c.Advances[i])
		tx.Flush()
	}
	return AdvancesResult{results}
}

// advance replaces a frame that is still the one that the step was computed from (I20).
func advance(tx *lifecycle.Tx, a *Advance) Result {
	old, r := find(tx, a.Execution, "")
	if r != nil {
		return Result{Refusal: r}
	}
	switch {
	case old.Status.Over():
		return Result{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.ExecutionOver, old.ID, old.Status.String())}
	case old.Seq != a.Seq:
		return Result{Refusal: kernel.Refuse(kernel.CodeAborted, reason.ExecutionChanged, old.ID)}
	case len(a.Frame) > executions.MaxFrame || len(a.Output) > executions.MaxValue || a.Outcome < GoesOn || a.Outcome > IsCanceled:
		return Result{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadExecution, "its frame or its output is too large")}
	}
	e := executions.Edit(old)
	step(tx, e, a)
	now, _ := bookOf(tx).Execution(e.ID)
	return Result{Execution: now}
}

// step carries out one step of an execution. The caller gives the row away.
func step(tx *lifecycle.Tx, e *executions.Execution, a *Advance) {
	e.Seq++
	e.Frame, e.More = a.Frame, a.More
	e.Canceling = e.Canceling || a.Canceling
	e.Waits = slices.DeleteFunc(e.Waits, func(w executions.Wait) bool { return w.Done && slices.Contains(a.Used, w.ID) })
	note(tx, e, a.Events)
	happened := a.Events
	switch a.Outcome {
	case Completes:
		happened = append(slices.Clip(happened), executions.Happening{Type: typeCompleted, Value: fitting(a.Output), Truncated: fitting(a.Output) == nil && a.Output != nil})
	case Fails, IsCanceled:
		happened = append(slices.Clip(happened), executions.Happening{Type: typeFailed, Err: clipFailure(a.Err)})
	}
	record(tx, e, happened)
	// The row is in the book before its effects are carried out, since they refer to it.
	executions.Save(tx.Entry, e)
	for i := range a.Effects {
		carryOut(tx, e.ID, &a.Effects[i])
	}
	switch a.Outcome {
	case Completes:
		finish(tx, e.ID, executions.Completed, a.Output, nil)
	case Fails:
		finish(tx, e.ID, executions.Failed, nil, clipFailure(a.Err))
	case IsCanceled:
		finish(tx, e.ID, executions.Canceled, nil, clipFailure(a.Err))
	}
}

// The types of events of an execution. They are published.
const (
	typeStarted   = "scaicore.runtime.invocation.started"
	typeCompleted = "scaicore.runtime.invocation.completed"
	typeFailed    = "scaicore.runtime.invocation.failed"
	TypeEntered   = "scaicore.runtime.block.entered"
	TypeExited    = "scaicore.runtime.block.exited"
	TypeBlockFail = "scaicore.runtime.block.failed"
	// TypeRetrying is Mind's own: a block failed, and is tried again.
	TypeRetrying = "scaicore.runtime.block.retrying"
)

// fitting returns a value that an event can hold; nil: it is too large.
func fitting(value []byte) []byte {
	if len(value) > executions.MaxEventValue {
		return nil
	}
	return value
}

// note keeps the newest steps.
func note(tx *lifecycle.Tx, e *executions.Execution, events []executions.Happening) {
	for i := range events {
		h := &events[i]
		if h.Type == TypeEntered {
			e.Steps = append(e.Steps, executions.Step{Path: clip(h.Path), Node: clip(h.Node), Kind: clip(h.Kind), Attempt: h.Attempt, StartedAt: tx.Now})
			continue
		}
		if h.Type != TypeExited && h.Type != TypeBlockFail && h.Type != TypeRetrying {
			continue
		}
		for j := len(e.Steps) - 1; j >= 0; j-- {
			if s := &e.Steps[j]; s.Path == h.Path && s.EndedAt == 0 {
				s.EndedAt, s.Err = tx.Now, clipFailure(h.Err)
				break
			}
		}
	}
	if extra := len(e.Steps) - executions.MaxSteps; extra > 0 {
		e.Steps = slices.Clone(e.Steps[extra:])
	}
}

// record keeps the events of an execution.
func record(tx *lifecycle.Tx, e *executions.Execution, events []executions.Happening) {
	recordOf(tx, e.Tenant, e.Core, e.ID, events)
}

func recordOf(tx *lifecycle.Tx, tenant string, core ident.Core, execution ident.Execution, events []executions.Happening) {
	if len(events) == 0 {
		return
	}
	id, ok := tx.Mint()
	if !ok {
		return
	}
	kept := make([]executions.Happening, len(events))
	for i := range events {
		h := events[i]
		h.Type, h.Path, h.Node, h.Kind, h.Name, h.Err = clip(h.Type), clip(h.Path), clip(h.Node), clip(h.Kind), clip(h.Name), clipFailure(h.Err)
		if len(h.Value) > executions.MaxEventValue {
			h.Value, h.Truncated = nil, true
		}
		kept[i] = h
	}
	executions.Append(bookOf(tx), &executions.Segment{ID: id, Tenant: tenant, Core: core, Execution: execution, At: tx.Now, Events: kept})
}
