package lifecycle

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Place grants all leases of a new attempt, or none.
func (tx *Tx) Place(p *work.Placement) *kernel.Refusal {
	old, there := tx.Job(p.Job)
	if !there {
		old = tx.Materialize(p.Job)
	}
	switch {
	case old == nil:
		return kernel.Refuse(kernel.CodeNotFound, reason.NoJob, p.Job)
	case !old.Waiting() || old.Array != nil:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.JobIs, p.Job, old.State)
	case p.Attempt != old.Attempt+1:
		return kernel.Refuse(kernel.CodeAborted, reason.PlanOutdated, p.Attempt, p.Job, old.Attempt)
	case len(p.Tasks) != int(old.Shape.Nodes):
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.WrongPlaces, len(p.Tasks), old.Shape.Nodes, p.Job)
	}
	if node := Twice(p.Tasks); node != "" {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NodeTwice, node, p.Job)
	}
	c, kept := tx.ClaimOf(old.ID)
	if kept {
		tx.DropClaim(c) // The job may use its own claim.
	}
	if r := tx.placeable(old, p); r != nil {
		if kept {
			tx.PutClaim(c)
		}
		return r
	}
	if kept && !within(c.Tasks, p.Tasks) {
		tx.emitUnkept(old, c)
	}
	before := old
	if !there {
		before = nil
	}
	tx.grant(before, *old, p)
	return nil
}

// placeable says why the tasks of a job cannot be at places that were proposed; nil: they can.
func (tx *Tx) placeable(old *work.Job, p *work.Placement) *kernel.Refusal {
	for i := range p.Tasks {
		t := &p.Tasks[i]
		n, ok := tx.Node(t.Node)
		if !ok {
			return kernel.Refuse(kernel.CodeNotFound, reason.NoNode, t.Node)
		}
		if !old.MayRunOn(n) {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.MayNotTakeOver,
				n.ID, old.Awaits[0].Node, old.Awaits[0].Attempt, p.Job)
		}
		if r := work.CheckTask(n, tx.InUse(n.ID), old.Shape, t.GPUs); r != nil {
			return r
		}
		if r := tx.Kept(old, n.ID); r != nil {
			return r
		}
	}
	if r := tx.SplitsDomains(&old.Shape, p.Tasks); r != nil {
		return r
	}
	why := tx.overQuota(old, p.Tasks)
	if why == "" {
		why = tx.OverParallel(old)
	}
	if why != "" {
		return &kernel.Refusal{Code: kernel.CodeResourceExhausted, Reason: reason.New(reason.JobBarred, p.Job, why), Quota: true}
	}
	return nil
}

// grant makes all leases of a new attempt. before is the row of the job; nil: the job is an element of an array that begins.
func (tx *Tx) grant(before *work.Job, j work.Job, p *work.Placement) {
	j.Attempt, j.Token = p.Attempt, tx.Index
	j.Streak.Gained = false
	j.Tasks = make([]work.Task, len(p.Tasks))
	for i := range p.Tasks {
		node := tx.Entry.Intern(p.Tasks[i].Node)
		j.Tasks[i] = work.Task{Rank: uint16(i), Node: node, GPUs: p.Tasks[i].GPUs, State: v1.TaskState_ASSIGNED}
	}
	tx.charge(&j)
	tx.Move(&j, v1.JobState_ALLOCATED, "")
	tx.Emit(event.Event{
		Topic: event.TopicLease, Tenant: j.Tenant, Job: j.ID, Attempt: j.Attempt, Queue: j.Queue,
		Nodes: work.TaskNodes(j.Tasks), Granted: true,
	})
	tx.SaveJob(before, &j)
	for i := range j.Tasks {
		tx.Grant(&work.Lease{
			Job: j.ID, Rank: uint16(i), Attempt: j.Attempt, Node: j.Tasks[i].Node, GPUs: j.Tasks[i].GPUs,
			FractionMilli: j.Shape.FractionMilli, CPUs: j.Shape.CPUDemand(), MemMB: j.Shape.MemMB,
			Token: tx.Index, GrantedAt: tx.Now,
		})
	}
}

// Twice returns a node that is in the gang more than once; empty: none.
func Twice(tasks []work.TaskPlacement) string {
	if len(tasks) < 2 {
		return ""
	}
	seen := make(map[string]struct{}, len(tasks))
	for i := range tasks {
		if _, again := seen[tasks[i].Node]; again {
			return tasks[i].Node
		}
		seen[tasks[i].Node] = struct{}{}
	}
	return ""
}

// SplitsDomains says why the places of a job are too far from each other; nil: they are not. The nodes are there.
func (tx *Tx) SplitsDomains(s *work.Shape, tasks []work.TaskPlacement) *kernel.Refusal {
	return work.CheckDomains(s, func(rank int) *work.Node {
		n, _ := tx.Node(tasks[rank].Node)
		return n
	})
}
