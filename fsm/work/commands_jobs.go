package work

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
)

// SubmitJobs creates jobs, each for itself: one that is refused does not keep the others out.
type SubmitJobs struct {
	Jobs []NewJob `cbor:"1,keyasint,omitempty"`
	// Actor is who submits them; without a tenant in it, each job's own tenant and user.
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

// NewJob is a job to create. Zero durations mean: no limit (MaxRuntime), or the default.
type NewJob struct {
	Tenant       string            `cbor:"1,keyasint,omitempty"`
	User         string            `cbor:"2,keyasint,omitempty"`
	Name         string            `cbor:"3,keyasint,omitempty"`
	Queue        string            `cbor:"4,keyasint,omitempty"`
	Priority     uint8             `cbor:"5,keyasint,omitempty"`
	Spec         []byte            `cbor:"6,keyasint,omitempty"`
	Shape        Shape             `cbor:"7,keyasint,omitempty"`
	Labels       map[string]string `cbor:"8,keyasint,omitempty"`
	Retry        RetryPolicy       `cbor:"9,keyasint,omitempty"`
	Preemptible  bool              `cbor:"10,keyasint,omitempty"`
	MaxRuntime   int64             `cbor:"11,keyasint,omitempty"`
	LostAfter    int64             `cbor:"12,keyasint,omitempty"`
	GiveUpAfter  int64             `cbor:"13,keyasint,omitempty"`
	Grace        int64             `cbor:"14,keyasint,omitempty"`
	NotBefore    int64             `cbor:"15,keyasint,omitempty"`
	Dependencies []Dependency      `cbor:"16,keyasint,omitempty"`
	ResumeFrom   ident.Checkpoint  `cbor:"17,keyasint,omitempty"`
	// Key is the idempotency key, scoped to the tenant; empty: none. Fingerprint tells a repeat from a misuse. AutoKey
	// marks a key that the gateway minted; so does the prefix "auto:".
	Key         string `cbor:"18,keyasint,omitempty"`
	Fingerprint uint64 `cbor:"19,keyasint,omitempty"`
	AutoKey     bool   `cbor:"20,keyasint,omitempty"`
	// Credentials are sealed by who proposes them, and opaque here.
	Credentials []byte `cbor:"21,keyasint,omitempty"`
	// Request is the id of the request that this job came with, when several were put together; empty: the actor's.
	Request string `cbor:"22,keyasint,omitempty"`
	// Retention is which of its checkpoints are kept.
	Retention checkpoints.Retention `cbor:"23,keyasint,omitempty"`
	// Scores is the checkpoint that an evaluation scores: it is kept until then. 0: none.
	Scores ident.Checkpoint `cbor:"24,keyasint,omitempty"`
	// Array makes it a job array, of which MaxParallel elements run at the same time; 0: as many as can.
	Array       *NewArray `cbor:"56,keyasint,omitempty"`
	MaxParallel uint32    `cbor:"57,keyasint,omitempty"`
}

// SubmitJobsResult has one result per job, in order.
type SubmitJobsResult struct {
	Results []SubmitResult
}

// SubmitResult is the job that was created, or that an earlier submit with the same key created, or why there is none.
type SubmitResult struct {
	Job ident.Job
	// State is the job's now; UNSPECIFIED for a duplicate whose job was dropped since.
	State     v1.JobState_Value
	Duplicate bool
	Refusal   *kernel.Refusal
}

// Action is what ControlJob does.
type Action uint8

// The actions on a job.
const (
	ActionCancel Action = iota + 1
	ActionPause
	ActionResume
	ActionRetry
)

// ControlJob is a user's will about one job.
type ControlJob struct {
	// Tenant must own the job; empty: not checked.
	Tenant string    `cbor:"1,keyasint,omitempty"`
	Job    ident.Job `cbor:"2,keyasint,omitempty"`
	Action Action    `cbor:"3,keyasint,omitempty"`
	Reason string    `cbor:"4,keyasint,omitempty"`
	// SaveCheckpoint (pause): give the process its grace period.
	SaveCheckpoint bool `cbor:"5,keyasint,omitempty"`
	// Checkpoint (resume, retry) to go on from; 0: the newest.
	Checkpoint  ident.Checkpoint `cbor:"6,keyasint,omitempty"`
	Key         string           `cbor:"7,keyasint,omitempty"`
	Fingerprint uint64           `cbor:"8,keyasint,omitempty"`
	// Spec and Shape (retry) replace those of the job when set.
	Spec  []byte `cbor:"9,keyasint,omitempty"`
	Shape *Shape `cbor:"10,keyasint,omitempty"`
	// Credentials (resume, retry) replace those of the job when set.
	Credentials []byte        `cbor:"11,keyasint,omitempty"`
	Actor       *access.Actor `cbor:"12,keyasint,omitempty"`
	// Vouch (cancel): the caller says that the job's tasks on unreachable nodes are dead.
	Vouch bool `cbor:"13,keyasint,omitempty"`
}

// ControlResult is the job as it is after the command, or why nothing was done.
type ControlResult struct {
	Job     *Job
	Refusal *kernel.Refusal
	// Duplicate: an earlier command with the same key did it; Job is the job as it is now.
	Duplicate bool
}

// PlaceJobs is a plan of the scheduler. Every placement is verified again, for itself.
type PlaceJobs struct {
	// BasedOn is the index of the view that the plan was made from. All jobs created up to it have been considered.
	BasedOn    uint64        `cbor:"1,keyasint,omitempty"`
	Placements []Placement   `cbor:"2,keyasint,omitempty"`
	Reasons    []ClassReason `cbor:"3,keyasint,omitempty"`
}

// Placement gives all tasks of a new attempt their places.
type Placement struct {
	Job ident.Job `cbor:"1,keyasint,omitempty"`
	// Attempt is the number of the new attempt: the job's Attempt + 1.
	Attempt uint32 `cbor:"2,keyasint,omitempty"`
	// Tasks in order of rank, each on a node of its own.
	Tasks []TaskPlacement `cbor:"3,keyasint,omitempty"`
}

// TaskPlacement is one node, and the set of GPU indices on it (one GPU for a fraction).
type TaskPlacement struct {
	Node string `cbor:"1,keyasint,omitempty"`
	GPUs uint64 `cbor:"2,keyasint,omitempty"`
}

// ClassReason says why the jobs of a class wait. An empty reason takes the old one away.
type ClassReason struct {
	Class  ClassKey      `cbor:"1,keyasint,omitempty"`
	Reason reason.Reason `cbor:"2,keyasint,omitempty"`
}

// PlaceResult says what became true of a plan.
type PlaceResult struct {
	Placed  []PlacedJob
	Refused []RefusedPlacement
}

// PlacedJob has its leases, under Token.
type PlacedJob struct {
	Job     ident.Job
	Attempt uint32
	Token   uint64
}

// RefusedPlacement is what no longer fitted.
type RefusedPlacement struct {
	Job    ident.Job
	Code   kernel.Code
	Reason reason.Reason
}

// ReportKind is what a report tells of a task.
type ReportKind uint8

// The kinds of reports.
const (
	ReportStarting ReportKind = iota + 1
	ReportRunning
	ReportEnded
	ReportPhase
	ReportProgress
	ReportCheckpoint
	// ReportEvaluation: a benchmark of an evaluation has a result.
	ReportEvaluation
	// ReportTransfer: what the task needs is in flight to the node, or here.
	ReportTransfer
)

// ReportTasks is what happened on one node.
type ReportTasks struct {
	Node    string       `cbor:"1,keyasint,omitempty"`
	Reports []TaskReport `cbor:"2,keyasint,omitempty"`
}

// TaskReport is what happened to one task, under its fencing token.
type TaskReport struct {
	Job     ident.Job  `cbor:"1,keyasint,omitempty"`
	Attempt uint32     `cbor:"2,keyasint,omitempty"`
	Rank    uint16     `cbor:"3,keyasint,omitempty"`
	Token   uint64     `cbor:"4,keyasint,omitempty"`
	Kind    ReportKind `cbor:"5,keyasint,omitempty"`
	// Time on the agent's clock, Unix nanoseconds; 0: now.
	Time int64 `cbor:"6,keyasint,omitempty"`
	// ReportEnded. ExitCode is nil when the task never ran or nobody knows. ErrorMessage also with ReportEvaluation: why there
	// are no figures.
	ExitCode     *int32             `cbor:"7,keyasint,omitempty"`
	ErrorType    v1.ErrorType_Value `cbor:"8,keyasint,omitempty"`
	ErrorMessage reason.Reason      `cbor:"9,keyasint,omitempty"`
	// ReportPhase.
	Phase v1.JobPhase_Value `cbor:"10,keyasint,omitempty"`
	// ReportProgress; Step also with ReportCheckpoint.
	Step  int64 `cbor:"11,keyasint,omitempty"`
	Total int64 `cbor:"12,keyasint,omitempty"`
	// ReportCheckpoint; Metrics also with ReportEvaluation.
	Path      string `cbor:"13,keyasint,omitempty"`
	Digest    string `cbor:"14,keyasint,omitempty"`
	SizeBytes int64  `cbor:"15,keyasint,omitempty"`
	Metrics   string `cbor:"16,keyasint,omitempty"`
	// ReportEvaluation.
	Benchmark string `cbor:"17,keyasint,omitempty"`
	Samples   int64  `cbor:"18,keyasint,omitempty"`
	// ReportTransfer; empty: nothing is in flight any more.
	Transfer string `cbor:"19,keyasint,omitempty"`
	// Model (ReportCheckpoint): it is an exported model, not to go on from.
	Model bool `cbor:"20,keyasint,omitempty"`
}

// ReportResult counts what became of the reports. All of them are settled: none needs to be sent again.
type ReportResult struct {
	Applied int
	// Duplicate ones told what was known.
	Duplicate int
	// Stale ones came from an attempt, token or node that does not hold the lease; no attempt was changed by them. (The
	// end of a task of a lost attempt is taken down all the same: that task need not be waited for any more.)
	Stale int
	// Incomplete are checkpoints without the digest of a manifest. They were refused.
	Incomplete int
	// Refused are results of a job that is no evaluation, or beyond the bounds of one.
	Refused int
	// Checkpoints are the ids registered, in the order of the reports.
	Checkpoints []ident.Checkpoint
}
