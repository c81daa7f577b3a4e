package jobverbs

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/keys"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/notices"
)

// NewArray makes a submitted job an array: one job for each number from Start to End.
type NewArray struct {
	Start uint32 `cbor:"1,keyasint,omitempty"`
	End   uint32 `cbor:"2,keyasint,omitempty"`
}

// SubmitJobs creates jobs, each for itself: one that is refused does not keep the others out.
type SubmitJobs struct {
	Jobs []NewJob `cbor:"1,keyasint,omitempty"`
	// Actor submits them; without a tenant in it, each job's own tenant and user.
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (SubmitJobs) CommandNumber() uint16 { return 1 }

// NoticeGate opens notices of jobs.
var NoticeGate = level.NewGate(level.Released+1, "notices of jobs (mind submit --notify)")

// AtLevel implements kernel.Leveled.
func (c SubmitJobs) AtLevel(at level.Level) (kernel.Command, error) {
	if !NoticeGate.Open(at) && c.told() {
		return nil, NoticeGate.Check(at)
	}
	return c, nil
}

// told says whether any of the jobs has notices.
func (c SubmitJobs) told() bool {
	for i := range c.Jobs {
		if c.Jobs[i].Notices != nil {
			return true
		}
	}
	return false
}

func init() { verbs.Add(lifecycle.Verb("SubmitJobs", submitJobs, auditSubmitJobs)) }

// NewJob is a job to create. Zero durations mean: no limit (MaxRuntime), or the default.
type NewJob struct {
	Tenant       string            `cbor:"1,keyasint,omitempty"`
	User         string            `cbor:"2,keyasint,omitempty"`
	Name         string            `cbor:"3,keyasint,omitempty"`
	Queue        string            `cbor:"4,keyasint,omitempty"`
	Priority     uint8             `cbor:"5,keyasint,omitempty"`
	Spec         []byte            `cbor:"6,keyasint,omitempty"`
	Shape        work.Shape        `cbor:"7,keyasint,omitempty"`
	Labels       map[string]string `cbor:"8,keyasint,omitempty"`
	Retry        work.RetryPolicy  `cbor:"9,keyasint,omitempty"`
	Preemptible  bool              `cbor:"10,keyasint,omitempty"`
	MaxRuntime   int64             `cbor:"11,keyasint,omitempty"`
	LostAfter    int64             `cbor:"12,keyasint,omitempty"`
	GiveUpAfter  int64             `cbor:"13,keyasint,omitempty"`
	Grace        int64             `cbor:"14,keyasint,omitempty"`
	NotBefore    int64             `cbor:"15,keyasint,omitempty"`
	Dependencies []work.Dependency `cbor:"16,keyasint,omitempty"`
	ResumeFrom   ident.Checkpoint  `cbor:"17,keyasint,omitempty"`
	// Key is the idempotency key, scoped to the tenant; empty: none. Fingerprint tells a repeat from a misuse. AutoKey
	// marks a key that the gateway minted; so does the prefix "auto:".
	Key         string `cbor:"18,keyasint,omitempty"`
	Fingerprint uint64 `cbor:"19,keyasint,omitempty"`
	AutoKey     bool   `cbor:"20,keyasint,omitempty"`
	// Credentials are sealed by the proposer, and opaque here.
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
	// Notice is how long before the end of MaxRuntime the job is told; less than 0: not at all. 0: the default.
	Notice int64 `cbor:"68,keyasint,omitempty"`
	// Notices says which notices a URL gets of the job; nil: none.
	Notices *notices.Wanted `cbor:"71,keyasint,omitempty"`
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

// newArrayID is the id of the next array. Several in one entry take the indices that follow.
func newArrayID(tx *lifecycle.Tx) (ident.Job, bool) {
	index := tx.Index
	if last := tx.Meta.LastArray.ArrayIndex(); last >= index {
		index = last + 1
	}
	id, ok := ident.Array(index)
	if ok {
		tx.Meta.LastArray = id
		tx.Meta.Touch()
	}
	return id, ok
}

func submitJobs(tx *lifecycle.Tx, c *SubmitJobs) SubmitJobsResult {
	results := make([]SubmitResult, len(c.Jobs))
	for i := range c.Jobs {
		results[i] = Submit(tx, &c.Jobs[i])
	}
	return SubmitJobsResult{Results: results}
}

func Submit(tx *lifecycle.Tx, n *NewJob) SubmitResult {
	if n.Key != "" {
		first, r := keys.Recall(&tx.Ring, n.Tenant, n.Key, n.Fingerprint, 0, tx.Now)
		if r != nil {
			return SubmitResult{Refusal: r}
		}
		if first != nil {
			res := SubmitResult{Job: first.Job, Duplicate: true}
			if j, ok := tx.Job(first.Job); ok {
				res.State = j.State
			}
			return res
		}
	}
	j := &work.Job{
		Tenant: n.Tenant, User: n.User, Name: n.Name, Queue: n.Queue, Priority: n.Priority,
		Spec: n.Spec, Shape: n.Shape, Labels: n.Labels, Retry: n.Retry, Preemptible: n.Preemptible,
		LostAfter:   orDefault(n.LostAfter, work.DefaultLostAfter),
		GiveUpAfter: orDefault(n.GiveUpAfter, work.DefaultGiveUpAfter), Grace: orDefault(n.Grace, work.DefaultGrace),
		NotBefore: n.NotBefore, Dependencies: n.Dependencies, ResumeFrom: n.ResumeFrom, Credentials: n.Credentials,
		Retention: n.Retention, Scores: n.Scores,
		CreatedAt: tx.Now, UpdatedAt: tx.Now, Created: tx.Index, Revision: tx.Index,
	}
	if r := admitArray(n.Array); r != nil {
		return SubmitResult{Refusal: r}
	}
	if n.Array != nil {
		j.Array, j.MaxParallel = work.MakeArray(n.Array.Start, n.Array.End), n.MaxParallel
	}
	limit(j, n.MaxRuntime, n.Notice)
	if r := admit(tx, j); r != nil {
		return SubmitResult{Refusal: r}
	}
	if r := name(tx, j); r != nil {
		return SubmitResult{Refusal: r}
	}
	tx.Share(j)
	j.Held = tx.Holds(j)
	tx.Move(j, v1.JobState_QUEUED, work.HoldReason(j))
	if n.Notices != nil {
		j.Notices = notices.New(*n.Notices)
	}
	tx.AddJob(j)
	if n.Key != "" {
		keys.Remember(&tx.Ring, keys.IdempotencyKey{Tenant: j.Tenant, Key: n.Key, Fingerprint: n.Fingerprint, Job: j.ID}, n.AutoKey, tx.Now)
	}
	if j.Held&work.HoldDependency != 0 {
		if why := tx.Hopeless(j); why != "" {
			over := *j
			over.FinishedAt, over.Held = tx.Now, 0
			lifecycle.Abandon(&over)
			tx.Move(&over, v1.JobState_CANCELED, reason.New(reason.CanceledBecause, why))
			tx.SaveJob(j, &over)
			return SubmitResult{Job: j.ID, State: over.State}
		}
	}
	return SubmitResult{Job: j.ID, State: j.State}
}

// name gives a new job its id.
func name(tx *lifecycle.Tx, j *work.Job) *kernel.Refusal {
	if j.Array != nil {
		id, ok := newArrayID(tx)
		if !ok {
			return kernel.Refuse(kernel.CodeResourceExhausted, reason.NoArrayID)
		}
		j.ID = id
		return nil
	}
	id, ok := tx.Mint()
	if !ok {
		return kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyJobs)
	}
	j.ID = ident.Job(id)
	return nil
}

// orDefault takes 0 for "does not say", and less for none at all.
func orDefault(v, def int64) int64 {
	if v == 0 {
		return def
	}
	return max(v, 0)
}

func auditSubmitJobs(tx *kernel.Tx, c *SubmitJobs, result SubmitJobsResult) {
	if c.Actor == nil {
		return
	}
	results := result.Results
	for i := range results {
		if results[i].Duplicate {
			continue // The first one did it, and is recorded.
		}
		n := &c.Jobs[i]
		r := access.AuditRecord{Tenant: n.Tenant, User: n.User, Action: AuditJobSubmit, Job: results[i].Job}
		if results[i].Refusal != nil {
			r.Object = n.Name
		}
		as := c.Actor
		if n.Request != "" {
			own := *c.Actor
			own.Request = n.Request
			as = &own
		}
		access.Record(tx, as, r, results[i].Refusal)
	}
}

// AuditJobSubmit is the action in the audit log.
var AuditJobSubmit = access.DefineAction(1, "job.submit", access.AboutJobs)
