package executions

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

const (
	// MaxLive is how many executions may not be over, and MaxLiveOfTenant how many of one tenant.
	MaxLive         = 500_000
	MaxLiveOfTenant = 250_000
	// MaxFinished is how many executions that are over are kept.
	MaxFinished = 50_000
	// MaxDepth is how deep executions call each other.
	MaxDepth = 8
	// MaxFrame bounds a frame, and MaxValue an input, an output and the result of a wait; bytes.
	MaxFrame = 96 << 10
	MaxValue = 64 << 10
	// MaxWaits is how many waits of an execution are open.
	MaxWaits = 4_096
	// MaxSteps is how many of the newest steps are remembered.
	MaxSteps = 16
	// MaxText bounds texts that people read; bytes.
	MaxText = 2_048
)

// Status says how an execution stands.
type Status uint8

// The states.
const (
	// Ready: a leader advances it next.
	Ready Status = iota + 1
	// Waiting: nothing goes on before a wait is done.
	Waiting
	// Paused: somebody holds it. Its waits go on.
	Paused
	Completed
	Failed
	Canceled
)

var statusNames = map[Status]string{
	Ready: "running", Waiting: "waiting", Paused: "paused", Completed: "completed", Failed: "failed", Canceled: "canceled",
}

// String is the state as users see it.
func (s Status) String() string { return statusNames[s] }

// Over says whether the execution has ended.
func (s Status) Over() bool { return s >= Completed }

// WaitKind says what a wait is for.
type WaitKind uint8

// The kinds.
const (
	ForTimer WaitKind = iota + 1
	ForJob
	ForDecision
	ForExecution
	ForEvent
)

var waitNames = map[WaitKind]string{
	ForTimer: "timer", ForJob: "job", ForDecision: "decision", ForExecution: "execution", ForEvent: "event",
}

// String is the kind as users see it.
func (k WaitKind) String() string { return waitNames[k] }

// Failure is how an execution, a step or a wait failed.
type Failure struct {
	Code      string `cbor:"1,keyasint,omitempty"`
	Message   string `cbor:"2,keyasint,omitempty"`
	Step      string `cbor:"3,keyasint,omitempty"`
	Retryable bool   `cbor:"4,keyasint,omitempty"`
	// Reason stands for the message of a failure that the state itself has found.
	Reason reason.Reason `cbor:"5,keyasint,omitempty"`
}

func (e *Failure) fields(f kernel.Fields) kernel.Fields {
	if e == nil {
		return f.Flag(false)
	}
	return f.Flag(true).Text(e.Code).Text(e.Message).Text(e.Step).Flag(e.Retryable).Text(string(e.Reason))
}

// Wait is an effect of an execution that has no result yet, or one that has not been used.
type Wait struct {
	// ID is its number within the execution; it is never used again.
	ID   uint32   `cbor:"1,keyasint,omitempty"`
	Kind WaitKind `cbor:"2,keyasint,omitempty"`
	// Path is the step that waits, and Node the node of its drawing.
	Path  string `cbor:"3,keyasint,omitempty"`
	Node  string `cbor:"4,keyasint,omitempty"`
	Since int64  `cbor:"5,keyasint,omitempty"`
	// Due is when a timer fires. Deadline is when another wait is given up; every one has a deadline (I22).
	Due      int64 `cbor:"6,keyasint,omitempty"`
	Deadline int64 `cbor:"7,keyasint,omitempty"`
	// One of these is awaited: the job, the decision, the execution, or the event of a name.
	Job       ident.Job       `cbor:"8,keyasint,omitempty"`
	Decision  ident.Decision  `cbor:"9,keyasint,omitempty"`
	Execution ident.Execution `cbor:"10,keyasint,omitempty"`
	Event     string          `cbor:"11,keyasint,omitempty"`
	// Started: a job is waited for until it runs, and not until it is over.
	Started bool `cbor:"12,keyasint,omitempty"`
	// Done says that there is a result: a value, opaque here, or a failure. State is how the job ended.
	Done   bool              `cbor:"13,keyasint,omitempty"`
	Result []byte            `cbor:"14,keyasint,omitempty"`
	Err    *Failure          `cbor:"15,keyasint,omitempty"`
	State  v1.JobState_Value `cbor:"16,keyasint,omitempty"`
}

// wakes is when time ends the wait.
func (w *Wait) wakes() int64 {
	if w.Kind == ForTimer {
		return w.Due
	}
	return w.Deadline
}

// Step is one block that an execution has run, or runs.
type Step struct {
	Path    string `cbor:"1,keyasint,omitempty"`
	Node    string `cbor:"2,keyasint,omitempty"`
	Kind    string `cbor:"3,keyasint,omitempty"`
	Attempt uint32 `cbor:"4,keyasint,omitempty"`
	// StartedAt and EndedAt; no end: it runs.
	StartedAt int64    `cbor:"5,keyasint,omitempty"`
	EndedAt   int64    `cbor:"6,keyasint,omitempty"`
	Err       *Failure `cbor:"7,keyasint,omitempty"`
}

// Execution is one run of a flow of a Core.
type Execution struct {
	ID     ident.Execution `cbor:"1,keyasint,omitempty"`
	Tenant string          `cbor:"2,keyasint,omitempty"`
	// User started it; its jobs are submitted in this name.
	User string     `cbor:"3,keyasint,omitempty"`
	Core ident.Core `cbor:"4,keyasint,omitempty"`
	// Version is the program that it runs, until it is over.
	Version uint32 `cbor:"5,keyasint,omitempty"`
	Flow    string `cbor:"6,keyasint,omitempty"`
	Status  Status `cbor:"7,keyasint,omitempty"`
	// Seq counts its changes of frame. It only grows (I19).
	Seq uint64 `cbor:"8,keyasint,omitempty"`
	// Frame is its continuation, opaque here.
	Frame []byte `cbor:"9,keyasint,omitempty"`
	Waits []Wait `cbor:"10,keyasint,omitempty"`
	// Input and Output are values, opaque here.
	Input  []byte   `cbor:"11,keyasint,omitempty"`
	Output []byte   `cbor:"12,keyasint,omitempty"`
	Err    *Failure `cbor:"13,keyasint,omitempty"`
	// Parent is the execution that called it, ParentWait the wait of that.
	Parent     ident.Execution `cbor:"14,keyasint,omitempty"`
	ParentWait uint32          `cbor:"15,keyasint,omitempty"`
	Depth      uint8           `cbor:"16,keyasint,omitempty"`
	// Trigger says how it was started: api, event or call.
	Trigger string `cbor:"17,keyasint,omitempty"`
	Steps   []Step `cbor:"18,keyasint,omitempty"`
	// More: the last Advance ran out of fuel.
	More bool `cbor:"19,keyasint,omitempty"`
	// Held: somebody paused it. Cancel: somebody wants it to end; Canceling: its program knows.
	Held      bool   `cbor:"20,keyasint,omitempty"`
	Cancel    bool   `cbor:"21,keyasint,omitempty"`
	Canceling bool   `cbor:"22,keyasint,omitempty"`
	Why       string `cbor:"23,keyasint,omitempty"`
	// Key is the idempotency key that it was started with.
	Key        string `cbor:"24,keyasint,omitempty"`
	CreatedAt  int64  `cbor:"25,keyasint,omitempty"`
	UpdatedAt  int64  `cbor:"26,keyasint,omitempty"`
	FinishedAt int64  `cbor:"27,keyasint,omitempty"`
	Revision   uint64 `cbor:"28,keyasint,omitempty"`
	// Retries counts how often people had it go on after it had failed.
	Retries uint32 `cbor:"29,keyasint,omitempty"`
	// Fingerprint tells a repeat with the same key from a misuse.
	Fingerprint uint64 `cbor:"30,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (e *Execution) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(e.ID)).Text(e.Tenant).Text(e.User).Num(uint64(e.Core)).Num(uint64(e.Version)).Text(e.Flow)
	f = f.Num(uint64(e.Status)).Num(e.Seq).Bytes(e.Frame).Num(uint64(len(e.Waits)))
	for i := range e.Waits {
		w := &e.Waits[i]
		f = f.Num(uint64(w.ID)).Num(uint64(w.Kind)).Text(w.Path).Text(w.Node).Int(w.Since).Int(w.Due).Int(w.Deadline)
		f = f.Num(uint64(w.Job)).Num(uint64(w.Decision)).Num(uint64(w.Execution)).Text(w.Event).Flag(w.Started)
		f = w.Err.fields(f.Flag(w.Done).Bytes(w.Result)).Num(uint64(w.State))
	}
	f = e.Err.fields(f.Bytes(e.Input).Bytes(e.Output)).Num(uint64(e.Parent)).Num(uint64(e.ParentWait)).Num(uint64(e.Depth)).Text(e.Trigger)
	f = f.Num(uint64(len(e.Steps)))
	for i := range e.Steps {
		s := &e.Steps[i]
		f = s.Err.fields(f.Text(s.Path).Text(s.Node).Text(s.Kind).Num(uint64(s.Attempt)).Int(s.StartedAt).Int(s.EndedAt))
	}
	f = f.Flag(e.More).Flag(e.Held).Flag(e.Cancel).Flag(e.Canceling).Text(e.Why).Text(e.Key).Num(e.Fingerprint)
	return f.Int(e.CreatedAt).Int(e.UpdatedAt).Int(e.FinishedAt).Num(e.Revision).Num(uint64(e.Retries))
}

// Settle derives the status of an execution that is not over from what it waits for.
func (e *Execution) Settle() {
	if e.Status.Over() {
		return
	}
	ready := e.More || e.Cancel && !e.Canceling || e.Seq == 0
	for i := range e.Waits {
		ready = ready || e.Waits[i].Done
	}
	switch {
	case e.Held && (!e.Cancel || e.Canceling):
		e.Status = Paused
	case ready:
		e.Status = Ready
	default:
		e.Status = Waiting
	}
}

// Wait finds an open wait.
func (e *Execution) Wait(id uint32) *Wait {
	for i := range e.Waits {
		if e.Waits[i].ID == id {
			return &e.Waits[i]
		}
	}
	return nil
}
