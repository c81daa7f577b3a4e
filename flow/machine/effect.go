package machine

import (
	"fmt"
	"time"
)

// Error is how a step failed.
type Error struct {
	Code      string `cbor:"1,keyasint,omitempty" json:"code"`
	Message   string `cbor:"2,keyasint,omitempty" json:"message"`
	Step      string `cbor:"3,keyasint,omitempty" json:"step,omitempty"`
	Retryable bool   `cbor:"4,keyasint,omitempty" json:"retryable"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Codes of errors that the machine makes itself. Those of expressions come from package expr.
const (
	CodeTimeout        = "TIMEOUT"
	CodeIterationLimit = "ITERATION_LIMIT"
	CodeBlockLimit     = "BLOCK_LIMIT"
	CodeTooLarge       = "VALUE_TOO_LARGE"
	CodeWaitLimit      = "WAIT_LIMIT"
	CodeType           = "TYPE"
	CodeNotSupported   = "NOT_SUPPORTED"
	CodeCanceled       = "CANCELED"
	CodeExpired        = "EXPIRED"
	CodeFailed         = "FAILED"
)

// EffectKind says what an effect does.
type EffectKind uint8

// The kinds.
const (
	// Timer wakes the execution after a time, or at one.
	Timer EffectKind = iota + 1
	// Job submits a job.
	Job
	// JobControl pauses, resumes or cancels a job.
	JobControl
	// Ask asks people.
	Ask
	// Call starts another execution.
	Call
	// Event waits for an event of the Core, or a signal.
	Event
	// Cancel gives up a wait: its timer, job, decision or execution is canceled.
	Cancel
)

// Effect is something to do outside of the machine. Its result comes under the number of its wait.
type Effect struct {
	Wait uint32
	Kind EffectKind
	// Block is the id of the block, and Path the id with the iterations that it is in.
	Block, Path, Node string
	// After is how long from now, At a time (Unix nanoseconds); for a timer.
	After time.Duration
	At    int64
	// Timeout bounds the wait; 0: the default of its kind. A timer has none.
	Timeout time.Duration
	// Action and Spec are of a Job ("train", "evaluate", "job") and a JobControl ("pause", "resume", "cancel").
	Action string
	Spec   any
	// Until is when a Job answers: "end", "start" or "none".
	Until string
	// JobID names the job of a JobControl.
	JobID string
	// Question is of an Ask.
	Question *Question
	// Target, Flow, Input and the like are of a Call.
	Target, Flow, InstanceKey string
	Version                   any
	Input                     map[string]any
	Async                     bool
	// Name is that of the awaited event.
	Name string
}

// Question is a question to people.
type Question struct {
	Type, Prompt, Assignee, Priority, OnTimeout, EscalationTarget, SubjectDigest, NotifyURL string
	Options                                                                                 []Option
	Schema                                                                                  []byte
	Context                                                                                 any
	Needed, Of                                                                              int
	RemindEvery                                                                             time.Duration
}

// Option is an allowed answer.
type Option struct{ ID, Label string }

// Result is the outcome of an effect.
type Result struct {
	Value any
	Err   *Error
}

// RecordKind says what happened in an execution.
type RecordKind uint8

// The kinds.
const (
	Entered RecordKind = iota + 1
	Exited
	BlockFailed
	Retrying
	Emitted
)

// Record is one event of an execution.
type Record struct {
	Kind RecordKind
	// Block is the id of the block, Path the id with the iterations that it is in.
	Block, Path, Node, BlockKind string
	Attempt                      int
	// Name is the binding of a result, or the name of an emitted event.
	Name  string
	Value any
	Err   *Error
}

// Status says how an execution stands after an Advance.
type Status uint8

// The states.
const (
	// Waiting: nothing goes on before a result comes.
	Waiting Status = iota + 1
	// More: fuel ran out; advance it again.
	More
	Completed
	Failed
	Canceled
)
