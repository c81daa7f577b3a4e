package fsm

import (
	"math"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// What a job gets that does not say (nanoseconds), and the limits of what it may ask.
const (
	DefaultLostAfter   = 60 * 1e9
	DefaultGiveUpAfter = 24 * 60 * 60 * 1e9
	DefaultGrace       = 30 * 1e9
	MaxPriority        = 10
	MaxDependencies    = 100
	MaxFractionMilli   = 999

	// maxDuration (a hundred years) keeps sums of times from overflowing.
	maxDuration = 100 * 365 * 24 * 60 * 60 * 1e9
)

func (SubmitJobs) commandType() uint16 { return 1 }

func (c SubmitJobs) apply(tx *tx) any {
	results := make([]SubmitResult, len(c.Jobs))
	for i := range c.Jobs {
		results[i] = tx.submit(&c.Jobs[i])
	}
	return SubmitJobsResult{Results: results}
}

func (tx *tx) submit(n *NewJob) SubmitResult {
	if n.Key != "" {
		first, r := tx.recall(n.Tenant, n.Key, n.Fingerprint, 0)
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
	j := &Job{
		Tenant: n.Tenant, User: n.User, Name: n.Name, Queue: n.Queue, Priority: n.Priority,
		Spec: n.Spec, Shape: n.Shape, Labels: n.Labels, Retry: n.Retry, Preemptible: n.Preemptible,
		MaxRuntime: min(max(n.MaxRuntime, 0), maxDuration), LostAfter: orDefault(n.LostAfter, DefaultLostAfter),
		GiveUpAfter: orDefault(n.GiveUpAfter, DefaultGiveUpAfter), Grace: orDefault(n.Grace, DefaultGrace),
		NotBefore: n.NotBefore, Dependencies: n.Dependencies, ResumeFrom: n.ResumeFrom, Credentials: n.Credentials,
		CreatedAt: tx.now, UpdatedAt: tx.now, Created: tx.index, Revision: tx.index,
	}
	if tx.version >= 3 {
		j.RetryRules = ExitCounts
	}
	if r := tx.admit(j); r != nil {
		return SubmitResult{Refusal: r}
	}
	id, ok := tx.mint()
	if !ok {
		return SubmitResult{Refusal: refuse(CodeResourceExhausted, "too many jobs in one request: send it again")}
	}
	j.ID = JobID(id)
	tx.share(j)
	j.Held = tx.holds(j)
	tx.move(j, v1.JobState_QUEUED, holdReason(j))
	tx.putJob(nil, j)
	if n.Key != "" {
		tx.remember(j.Tenant, n.Key, n.Fingerprint, n.AutoKey, j.ID, 0)
	}
	if j.Held&HoldDependency != 0 {
		if why := tx.hopeless(j); why != "" {
			over := *j
			over.FinishedAt, over.Held = tx.now, 0
			tx.move(&over, v1.JobState_CANCELED, "canceled: "+why)
			tx.saveJob(j, &over)
			return SubmitResult{Job: j.ID, State: over.State}
		}
	}
	return SubmitResult{Job: j.ID, State: j.State}
}

// orDefault takes 0 for "does not say", and less for none at all.
func orDefault(v, def int64) int64 {
	if v == 0 {
		return def
	}
	return max(v, 0)
}

// admit checks what only the state can tell, and what must hold of every job, whoever proposes it.
func (tx *tx) admit(j *Job) *Refusal {
	if j.Queue == "" {
		j.Queue = DefaultQueue
	}
	if _, ok := tx.Queue(j.Queue); !ok {
		return refuse(CodeInvalidArgument, "there is no queue %q: the queues are %s", j.Queue, tx.queueNames())
	}
	if j.Priority > MaxPriority {
		return refuse(CodeInvalidArgument, "the priority is 0 to %d, not %d", MaxPriority, j.Priority)
	}
	if j.Retry.On&^RetryAll != 0 {
		return refuse(CodeInvalidArgument, "retry_on has an unknown cause")
	}
	if len(j.Dependencies) > MaxDependencies {
		return refuse(CodeInvalidArgument, "a job can depend on %d jobs, not on %d", MaxDependencies, len(j.Dependencies))
	}
	for _, d := range j.Dependencies {
		on, ok := tx.Job(d.Job)
		if !ok || on.Tenant != j.Tenant {
			return refuse(CodeInvalidArgument, "there is no job %s to depend on", d.Job)
		}
		if d.When > AfterAny {
			return refuse(CodeInvalidArgument, "the condition of a dependency is ok, fail or any")
		}
	}
	if r := tx.admitCheckpoint(j.Tenant, j.ResumeFrom); r != nil {
		return r
	}
	if r := tx.admitShape(&j.Shape); r != nil {
		return r
	}
	return tx.admitOneMore(j.Tenant)
}

// admitCheckpoint checks that a job of the tenant may go on from a checkpoint.
func (tx *tx) admitCheckpoint(tenant string, id CheckpointID) *Refusal {
	if id == 0 {
		return nil
	}
	if c, ok := tx.Checkpoint(id); !ok || c.Tenant != tenant {
		return refuse(CodeInvalidArgument, "there is no checkpoint %s", id)
	}
	return nil
}

// admitShape checks a shape, and spells its GPU type as the nodes do. A shape that no node could hold today waits.
func (tx *tx) admitShape(s *Shape) *Refusal {
	s.Nodes = max(s.Nodes, 1)
	switch {
	case s.GPUs > MaxGPUs:
		return refuse(CodeInvalidArgument, "%d GPUs on one node: a node can have %d", s.GPUs, MaxGPUs)
	case s.GPUs > 0 && s.FractionMilli > 0:
		return refuse(CodeInvalidArgument, "a job asks for whole GPUs or for a fraction of one, not for both")
	case s.FractionMilli > MaxFractionMilli:
		return refuse(CodeInvalidArgument, "a GPU fraction is more than 0 and less than 1")
	case s.Topology > TopologySingleNode:
		return refuse(CodeInvalidArgument, "the topology is any, nvlink or single_node")
	case s.Topology == TopologySingleNode && s.Nodes > 1:
		return refuse(CodeInvalidArgument, "the topology single_node contradicts %d nodes", s.Nodes)
	case s.CPUs > math.MaxInt32 || s.MemMB > math.MaxInt32:
		return refuse(CodeInvalidArgument, "CPUs and memory are beyond any node")
	}
	if s.GPUType == "" || !s.NeedsGPU() || tx.NodeCount() == 0 {
		return nil
	}
	spelled, ok := tx.knownGPU(s.GPUType)
	if !ok {
		types := strings.Join(tx.GPUTypes(), ", ")
		if types == "" {
			types = "none"
		}
		return refuse(CodeInvalidArgument, "no node has GPUs of type %q: the types there are: %s", s.GPUType, types)
	}
	s.GPUType = spelled
	return nil
}
