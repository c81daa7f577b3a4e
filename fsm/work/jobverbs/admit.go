package jobverbs

import (
	"math"
	"strings"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// admitArray checks what an array must have, from any proposer.
func admitArray(n *NewArray) *kernel.Refusal {
	if n != nil && (n.Start > n.End || n.End > ident.MaxElement) {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.BadArray, int(n.Start), int(n.End), ident.MaxElement)
	}
	return nil
}

// admitCheckpoint checks that a job of the tenant may go on from a checkpoint.
func admitCheckpoint(tx *lifecycle.Tx, tenant string, id ident.Checkpoint) *kernel.Refusal {
	if id == 0 {
		return nil
	}
	switch c, ok := tx.Checkpoint(id); {
	case !ok || c.Tenant != tenant:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NoCheckpoint, id)
	case c.Expired():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CheckpointExpired, id, c.Reason)
	case c.Model:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CheckpointIsModel, id)
	}
	return nil
}

// admitScored checks that an evaluation of the tenant may score a checkpoint.
func admitScored(tx *lifecycle.Tx, j *work.Job) *kernel.Refusal {
	if c, ok := tx.Checkpoint(j.Scores); ok && c.Tenant == j.Tenant && c.Expired() {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CheckpointExpired, j.Scores, c.Reason)
	}
	return nil
}

// admit checks what only the state can tell, and what must hold of every job, from any proposer.
func admit(tx *lifecycle.Tx, j *work.Job) *kernel.Refusal {
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
	if r := admitCheckpoint(tx, j.Tenant, j.ResumeFrom); r != nil {
		return r
	}
	if r := admitScored(tx, j); r != nil {
		return r
	}
	if r := admitShape(tx, &j.Shape); r != nil {
		return r
	}
	if r := tx.AdmitSubmission(j.Tenant, len(j.Spec)); r != nil {
		return r
	}
	return tx.AdmitMore(j.Tenant, j.Places())
}

// admitShape checks a shape, and spells its GPU types as the nodes do. A shape that no node could hold today waits.
func admitShape(tx *lifecycle.Tx, s *work.Shape) *kernel.Refusal {
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
	known, onlySlices := false, true
	var types []string
	for one := range strings.SplitSeq(s.GPUType, work.GPUTypeOr) {
		spelled, slice, ok := tx.KnownGPU(one)
		if onlySlices = onlySlices && slice; ok {
			one, known = spelled, true
		}
		types = append(types, one)
	}
	switch {
	case !known: // Some node must have had one of them.
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NoSuchGPUType, s.GPUType, strings.Join(tx.GPUTypes(), ", "))
	case onlySlices && (s.GPUs > 1 || s.FractionMilli > 0):
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.SliceAlone, s.GPUType)
	}
	s.GPUType = work.CanonicalGPUType(strings.Join(types, work.GPUTypeOr))
	return nil
}
