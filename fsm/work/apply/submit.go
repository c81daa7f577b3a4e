package apply

import (
	"math"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

func submitJobs(tx *tx, c *work.SubmitJobs) any {
	results := make([]work.SubmitResult, len(c.Jobs))
	for i := range c.Jobs {
		results[i] = tx.submit(&c.Jobs[i])
	}
	return work.SubmitJobsResult{Results: results}
}

func (tx *tx) submit(n *work.NewJob) work.SubmitResult {
	if n.Key != "" {
		first, r := tx.recall(n.Tenant, n.Key, n.Fingerprint, 0)
		if r != nil {
			return work.SubmitResult{Refusal: r}
		}
		if first != nil {
			res := work.SubmitResult{Job: first.Job, Duplicate: true}
			if j, ok := tx.Job(first.Job); ok {
				res.State = j.State
			}
			return res
		}
	}
	j := &work.Job{
		Tenant: n.Tenant, User: n.User, Name: n.Name, Queue: n.Queue, Priority: n.Priority,
		Spec: n.Spec, Shape: n.Shape, Labels: n.Labels, Retry: n.Retry, Preemptible: n.Preemptible,
		MaxRuntime: min(max(n.MaxRuntime, 0), work.MaxDuration), LostAfter: orDefault(n.LostAfter, work.DefaultLostAfter),
		GiveUpAfter: orDefault(n.GiveUpAfter, work.DefaultGiveUpAfter), Grace: orDefault(n.Grace, work.DefaultGrace),
		NotBefore: n.NotBefore, Dependencies: n.Dependencies, ResumeFrom: n.ResumeFrom, Credentials: n.Credentials,
		Retention: n.Retention, Scores: n.Scores,
		CreatedAt: tx.now, UpdatedAt: tx.now, Created: tx.index, Revision: tx.index,
	}
	if r := admitArray(n.Array); r != nil {
		return work.SubmitResult{Refusal: r}
	}
	if n.Array != nil {
		j.Array, j.MaxParallel = work.MakeArray(n.Array), n.MaxParallel
	}
	j.Term = work.TermOf(j)
	if j.MaxRuntime > 0 {
		if j.Notice = min(n.Notice, j.MaxRuntime); j.Notice == 0 {
			j.Notice = work.DefaultNotice(j.MaxRuntime, j.Grace)
		}
	}
	if r := tx.admit(j); r != nil {
		return work.SubmitResult{Refusal: r}
	}
	if r := tx.name(j); r != nil {
		return work.SubmitResult{Refusal: r}
	}
	tx.Share(j)
	j.Held = tx.holds(j)
	tx.move(j, v1.JobState_QUEUED, work.HoldReason(j))
	tx.PutJob(nil, j)
	if n.Key != "" {
		tx.remember(j.Tenant, n.Key, n.Fingerprint, n.AutoKey, j.ID, 0)
	}
	if j.Held&work.HoldDependency != 0 {
		if why := tx.hopeless(j); why != "" {
			over := *j
			over.FinishedAt, over.Held = tx.now, 0
			abandon(&over)
			tx.move(&over, v1.JobState_CANCELED, reason.New(reason.CanceledBecause, why))
			tx.saveJob(j, &over)
			return work.SubmitResult{Job: j.ID, State: over.State}
		}
	}
	return work.SubmitResult{Job: j.ID, State: j.State}
}

// name gives a new job its id.
func (tx *tx) name(j *work.Job) *kernel.Refusal {
	if j.Array != nil {
		id, ok := tx.newArrayID()
		if !ok {
			return kernel.Refuse(kernel.CodeResourceExhausted, reason.NoArrayID)
		}
		j.ID = id
		return nil
	}
	id, ok := tx.mint()
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

// admit checks what only the state can tell, and what must hold of every job, from any proposer.
func (tx *tx) admit(j *work.Job) *kernel.Refusal {
	if j.Queue == "" {
		j.Queue = work.DefaultQueue
	}
	if _, ok := tx.Queue(j.Queue); !ok {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NoQueueForJob, j.Queue, tx.QueueNames())
	}
	if j.Priority > work.MaxPriority {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.PriorityOutOfRange, work.MaxPriority, j.Priority)
	}
	if j.Retry.On&^work.RetryAll != 0 {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownRetryCause)
	}
	if len(j.Dependencies) > work.MaxDependencies {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.TooManyDependencies, work.MaxDependencies, len(j.Dependencies))
	}
	for _, d := range j.Dependencies {
		on, ok := tx.Find(d.Job)
		if !ok || on.Tenant != j.Tenant {
			return kernel.Refuse(kernel.CodeInvalidArgument, reason.NoDependency, d.Job)
		}
		if d.When > work.AfterAny {
			return kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownCondition)
		}
	}
	if r := tx.admitCheckpoint(j.Tenant, j.ResumeFrom); r != nil {
		return r
	}
	if r := tx.admitScored(j); r != nil {
		return r
	}
	if r := tx.admitShape(&j.Shape); r != nil {
		return r
	}
	return tx.admitMore(j.Tenant, j.Places())
}

// admitShape checks a shape, and spells its GPU type as the nodes do. A shape that no node could hold today waits.
func (tx *tx) admitShape(s *work.Shape) *kernel.Refusal {
	s.Nodes = max(s.Nodes, 1)
	switch {
	case s.GPUs > work.MaxGPUs:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.TooManyGPUs, s.GPUs, work.MaxGPUs)
	case s.GPUs > 0 && s.FractionMilli > 0:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.GPUsAndFraction)
	case s.FractionMilli > work.MaxFractionMilli:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.FractionOutOfRange)
	case s.Topology > work.TopologySingleNode:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownTopology)
	case s.Topology == work.TopologySingleNode && s.Nodes > 1:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.TopologyOfManyNodes, s.Nodes)
	case !s.Between.Valid() || s.Between == domains.Anywhere && s.Segment > 0 || len(s.Exclude) > domains.MaxExclude,
		s.Between != domains.Anywhere && s.Level == "",
		s.Segment > 0 && (s.Between != domains.Same || s.Nodes%s.Segment != 0):
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.BadDomains)
	case s.CPUs > math.MaxInt32 || s.MemMB > math.MaxInt32:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.BeyondAnyNode)
	}
	if s.GPUType == "" || !s.NeedsGPU() || tx.NodeCount() == 0 {
		return nil
	}
	if strings.Contains(s.GPUType, work.GPUTypeOr) {
		return tx.admitGPUChoice(s)
	}
	spelled, ok := tx.KnownGPU(s.GPUType)
	if !ok {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NoSuchGPUType, s.GPUType, strings.Join(tx.GPUTypes(), ", "))
	}
	s.GPUType = spelled
	return nil
}

// admitGPUChoice spells each of several GPU types as the nodes do. Some node must have had one of them.
func (tx *tx) admitGPUChoice(s *work.Shape) *kernel.Refusal {
	known := false
	var types []string
	for one := range strings.SplitSeq(s.GPUType, work.GPUTypeOr) {
		if spelled, ok := tx.KnownGPU(one); ok {
			one, known = spelled, true
		}
		types = append(types, one)
	}
	if !known {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NoSuchGPUType, s.GPUType, strings.Join(tx.GPUTypes(), ", "))
	}
	s.GPUType = work.CanonicalGPUType(strings.Join(types, work.GPUTypeOr))
	return nil
}
