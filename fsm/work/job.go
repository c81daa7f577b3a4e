package work

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/bounds"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/notices"
)

// Job is the request of a user and its state. Rows are immutable once they are in the state.
type Job struct {
	ID       ident.Job `cbor:"1,keyasint"`
	Tenant   string    `cbor:"2,keyasint,omitempty"`
	User     string    `cbor:"3,keyasint,omitempty"`
	Name     string    `cbor:"4,keyasint,omitempty"`
	Queue    string    `cbor:"5,keyasint,omitempty"`
	Priority uint8     `cbor:"6,keyasint,omitempty"`
	// Spec is the job as it was submitted (a marshalled SubmitJobRequest), opaque here.
	Spec []byte `cbor:"7,keyasint,omitempty"`
	// Shape is the resources that it needs.
	Shape       Shape             `cbor:"8,keyasint,omitempty"`
	Labels      map[string]string `cbor:"9,keyasint,omitempty"`
	Retry       RetryPolicy       `cbor:"10,keyasint,omitempty"`
	Preemptible bool              `cbor:"11,keyasint,omitempty"`
	// Durations in nanoseconds. MaxRuntime 0: no limit.
	MaxRuntime  int64 `cbor:"12,keyasint,omitempty"`
	LostAfter   int64 `cbor:"13,keyasint,omitempty"`
	GiveUpAfter int64 `cbor:"14,keyasint,omitempty"`
	Grace       int64 `cbor:"15,keyasint,omitempty"`
	// NotBefore is in Unix nanoseconds; 0: at once.
	NotBefore    int64        `cbor:"16,keyasint,omitempty"`
	Dependencies []Dependency `cbor:"17,keyasint,omitempty"`

	State v1.JobState_Value `cbor:"18,keyasint,omitempty"`
	Phase v1.JobPhase_Value `cbor:"19,keyasint,omitempty"`
	// Held says why a QUEUED job is not offered to the scheduler yet; 0: it is.
	Held   Hold          `cbor:"20,keyasint,omitempty"`
	Reason reason.Reason `cbor:"21,keyasint,omitempty"`
	// Attempt is the newest one, 0 before the first. Token is the fencing token of it. Tasks are those of the newest
	// attempt; they stay readable when the job has finished, and are gone when it is QUEUED again.
	Attempt uint32 `cbor:"22,keyasint,omitempty"`
	Token   uint64 `cbor:"23,keyasint,omitempty"`
	Tasks   []Task `cbor:"24,keyasint,omitempty"`
	// Stop is set while a live attempt is being stopped; StopGrace is the grace period that goes with it.
	Stop      v1.StopReason_Value `cbor:"25,keyasint,omitempty"`
	StopGrace int64               `cbor:"26,keyasint,omitempty"`
	// Ending is the first thing that went wrong in a live attempt.
	Ending  *Ending     `cbor:"27,keyasint,omitempty"`
	Retries RetryCounts `cbor:"28,keyasint,omitempty"`

	ExitCode     *int32             `cbor:"29,keyasint,omitempty"`
	ErrorType    v1.ErrorType_Value `cbor:"30,keyasint,omitempty"`
	ErrorMessage reason.Reason      `cbor:"31,keyasint,omitempty"`

	Progress       Progress         `cbor:"32,keyasint,omitempty"`
	ResumeFrom     ident.Checkpoint `cbor:"33,keyasint,omitempty"`
	LastCheckpoint ident.Checkpoint `cbor:"34,keyasint,omitempty"`

	// Unix nanoseconds of log time. StartedAt is that of the newest attempt.
	CreatedAt  int64 `cbor:"35,keyasint,omitempty"`
	StartedAt  int64 `cbor:"36,keyasint,omitempty"`
	FinishedAt int64 `cbor:"37,keyasint,omitempty"`
	UpdatedAt  int64 `cbor:"38,keyasint,omitempty"`
	// Index of creation, and of the last change.
	Created  uint64 `cbor:"39,keyasint,omitempty"`
	Revision uint64 `cbor:"40,keyasint,omitempty"`

	// Past are the attempts before the newest one, oldest first; at most MaxPastAttempts are remembered.
	Past []PastAttempt `cbor:"41,keyasint,omitempty"`
	// Awaits are tasks of lost attempts that may still be alive. They limit where the next attempt may go, until nobody
	// has to wait for them any more.
	Awaits []AwaitedTask `cbor:"42,keyasint,omitempty"`
	// RetriedAt is the newest attempt when a user last retried the job: what failed up to it is forgiven.
	RetriedAt uint32 `cbor:"43,keyasint,omitempty"`
	// ChosenAt is the newest attempt when a user last chose ResumeFrom: the checkpoints of the attempts up to it are passed
	// over in favour of that one.
	ChosenAt uint32 `cbor:"44,keyasint,omitempty"`
	// Credentials are used by the job to fetch its data: sealed, opaque here, and gone when it is terminal.
	Credentials []byte `cbor:"45,keyasint,omitempty"`
	// Streak counts consecutive failed attempts without progress.
	Streak Streak `cbor:"46,keyasint,omitempty"`
	// SettlesAt is when no attempt of it that was lost with a part of the log can be alive any more, Unix nanoseconds; set
	// with HoldRecovery.
	SettlesAt int64 `cbor:"48,keyasint,omitempty"`
	// Retention is which of its checkpoints are kept.
	Retention checkpoints.Retention `cbor:"49,keyasint,omitempty"`
	// Scores is the checkpoint that an evaluation scores; 0: none.
	Scores ident.Checkpoint `cbor:"50,keyasint,omitempty"`

	// Array is set when the job is an array: then the row has no attempts of its own.
	Array *Array `cbor:"56,keyasint,omitempty"`
	// MaxParallel bounds the elements of the array that have leases at the same time; 0: no bound. Elements have it too.
	MaxParallel uint32 `cbor:"57,keyasint,omitempty"`
	// Keep: the row of an element that is over stays with the array's, because it has checkpoints or results.
	Keep bool `cbor:"58,keyasint,omitempty"`
	// Notice is how long before the end of MaxRuntime the job is told; less than 0: not at all. 0: it is of a level without
	// Notices, and is told when the limit is reached.
	Notice int64 `cbor:"68,keyasint,omitempty"`
	// Term is when an attempt of it is over, as its class has it; TermOpen also when it is of a level without Windows.
	Term Term `cbor:"69,keyasint,omitempty"`
	// GoOn: a user has resumed it while its attempt is being stopped for a pause: it waits for its next attempt then.
	GoOn bool `cbor:"70,keyasint,omitempty"`
	// Notices are the messages to a URL; nil: none. An array has them, its elements do not.
	Notices *notices.Notices `cbor:"71,keyasint,omitempty"`
	// SpecDropped: it was over for so long that its Spec is gone. It cannot be tried again.
	SpecDropped bool `cbor:"72,keyasint,omitempty"`
}

// MaxPastAttempts bounds what a job remembers of its earlier attempts.
const MaxPastAttempts = 16

// PastAttempt is an attempt that another one followed, or may follow.
type PastAttempt struct {
	Attempt uint32 `cbor:"1,keyasint,omitempty"`
	Token   uint64 `cbor:"2,keyasint,omitempty"`
	// Nodes in order of rank.
	Nodes     []string           `cbor:"3,keyasint,omitempty"`
	ExitCode  *int32             `cbor:"4,keyasint,omitempty"`
	ErrorType v1.ErrorType_Value `cbor:"5,keyasint,omitempty"`
	// Reason says why it ended.
	Reason    reason.Reason `cbor:"6,keyasint,omitempty"`
	StartedAt int64         `cbor:"7,keyasint,omitempty"`
	EndedAt   int64         `cbor:"8,keyasint,omitempty"`
	// FailedNode is where the failure was that a retry followed; empty: nothing that speaks against a node.
	FailedNode string `cbor:"9,keyasint,omitempty"`
	// Loss says on what grounds it was declared lost.
	Loss *Loss `cbor:"10,keyasint,omitempty"`
}

// Hold is a set of reasons for which a QUEUED job is kept from the scheduler.
type Hold uint8

// The reasons for a hold.
const (
	// HoldNotBefore: its time has not come.
	HoldNotBefore Hold = 1 << iota
	// HoldDependency: it waits for other jobs.
	HoldDependency
	// HoldBackoff: it pauses before its next restart.
	HoldBackoff
	// HoldRecovery: an attempt of it may be alive that the recovered state has no record of.
	HoldRecovery
	// HoldUser: a user keeps it.
	HoldUser
)

// Task is the part of an attempt on one node.
type Task struct {
	Rank uint16 `cbor:"1,keyasint,omitempty"`
	Node string `cbor:"2,keyasint,omitempty"`
	// GPUs is the set of leased GPU indices on the node.
	GPUs         uint64             `cbor:"3,keyasint,omitempty"`
	State        v1.TaskState_Value `cbor:"4,keyasint,omitempty"`
	ExitCode     *int32             `cbor:"5,keyasint,omitempty"`
	ErrorType    v1.ErrorType_Value `cbor:"6,keyasint,omitempty"`
	ErrorMessage reason.Reason      `cbor:"7,keyasint,omitempty"`
	StartedAt    int64              `cbor:"8,keyasint,omitempty"`
	EndedAt      int64              `cbor:"9,keyasint,omitempty"`
	// Transfer says how far what the task needs is in flight to the node; only before it runs.
	Transfer string `cbor:"10,keyasint,omitempty"`
}

// MaxTransfer bounds what is kept of how far a transfer is, in bytes.
const MaxTransfer = 512

// Ending is why an attempt is coming to its end: the first failure counts, what follows from it does not.
type Ending struct {
	Rank         uint16             `cbor:"1,keyasint,omitempty"`
	Node         string             `cbor:"2,keyasint,omitempty"`
	ExitCode     *int32             `cbor:"3,keyasint,omitempty"`
	ErrorType    v1.ErrorType_Value `cbor:"4,keyasint,omitempty"`
	ErrorMessage reason.Reason      `cbor:"5,keyasint,omitempty"`
	// Loss is set when the task did not end by its own word but was declared lost.
	Loss *Loss `cbor:"6,keyasint,omitempty"`
}

// Progress is reported by the workload.
type Progress struct {
	Step  int64 `cbor:"1,keyasint,omitempty"`
	Total int64 `cbor:"2,keyasint,omitempty"`
}

// Condition is how another job must have ended.
type Condition uint8

// The conditions of a dependency.
const (
	AfterOK Condition = iota
	AfterFail
	AfterAny
)

// Dependency makes a job wait for the end of another one of the same tenant.
type Dependency struct {
	Job  ident.Job `cbor:"1,keyasint,omitempty"`
	When Condition `cbor:"2,keyasint,omitempty"`
}

// Live says whether the job has an attempt with leases.
func (j *Job) Live() bool {
	if j.Array != nil {
		return false
	}
	return j.State == v1.JobState_ALLOCATED || j.State == v1.JobState_STARTING || j.State == v1.JobState_RUNNING
}

// ProtectedUntil is until when a live attempt is left alone by a preemption that leaves attempts alone for so long from their
// start, Unix nanoseconds. One that does not run yet has nothing to lose.
func (j *Job) ProtectedUntil(protect int64) int64 {
	if j.StartedAt == 0 {
		return 0
	}
	return j.StartedAt + protect
}

// Terminal says whether the job is over, unless somebody retries it.
func (j *Job) Terminal() bool { return status.Terminal(j.State) }

// SpecGoes says whether its spec will be dropped some time after its end. That of an element goes with that of its array, and
// a short one of an evaluation stays, because it says what the results are about.
func (j *Job) SpecGoes() bool {
	return j.Terminal() && len(j.Spec) > 0 && j.Submission() && (!j.Evaluation() || len(j.Spec) > bounds.EvaluationSpec)
}

// Needs are the checkpoints that it goes on from and that it scores, while it is not over; 0: none.
func (j *Job) Needs() (needs [2]ident.Checkpoint) {
	if !j.Terminal() {
		needs = [2]ident.Checkpoint{j.ResumeFrom, j.Scores}
	}
	return needs
}
