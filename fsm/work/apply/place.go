package apply

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

func placeJobs(tx *tx, c *work.PlaceJobs) any {
	tx.openAccounts()
	res := work.PlaceResult{Placed: make([]work.PlacedJob, 0, len(c.Placements))}
	for i := range c.Placements {
		p := &c.Placements[i]
		if r := tx.place(p); r != nil {
			res.Refused = append(res.Refused, work.RefusedPlacement{Job: p.Job, Code: r.Code, Reason: r.Reason})
			continue
		}
		res.Placed = append(res.Placed, work.PlacedJob{Job: p.Job, Attempt: p.Attempt, Token: tx.index})
	}
	tx.meta.Considered = max(tx.meta.Considered, min(c.BasedOn, tx.index))
	tx.meta.Touch()
	for i := range c.Reasons {
		tx.Explain(c.Reasons[i].Class, c.Reasons[i].Reason)
	}
	return res
}

// place grants all leases of a new attempt, or none.
func (tx *tx) place(p *work.Placement) *kernel.Refusal {
	old, there := tx.Job(p.Job)
	if !there {
		old = tx.materialize(p.Job)
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
	if node := twice(p.Tasks); node != "" {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NodeTwice, node, p.Job)
	}
	c, kept := tx.ClaimOf(old.ID)
	if kept {
		tx.DropClaim(c) // What is kept for the job may be used by it.
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
func (tx *tx) placeable(old *work.Job, p *work.Placement) *kernel.Refusal {
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
		if r := tx.kept(old, n.ID); r != nil {
			return r
		}
	}
	if r := tx.splitsDomains(&old.Shape, p.Tasks); r != nil {
		return r
	}
	why := tx.overQuota(old, p.Tasks)
	if why == "" {
		why = tx.overParallel(old)
	}
	if why != "" {
		return &kernel.Refusal{Code: kernel.CodeResourceExhausted, Reason: reason.New(reason.JobBarred, p.Job, why), Quota: true}
	}
	return nil
}

// grant makes all leases of a new attempt. before is the row of the job; nil: the job is an element of an array that begins.
func (tx *tx) grant(before *work.Job, j work.Job, p *work.Placement) {
	j.Attempt, j.Token = p.Attempt, tx.index
	j.Streak.Gained = false
	j.Tasks = make([]work.Task, len(p.Tasks))
	for i := range p.Tasks {
		node := tx.entry.Intern(p.Tasks[i].Node)
		j.Tasks[i] = work.Task{Rank: uint16(i), Node: node, GPUs: p.Tasks[i].GPUs, State: v1.TaskState_ASSIGNED}
	}
	tx.charge(&j)
	tx.move(&j, v1.JobState_ALLOCATED, "")
	tx.emit(event.Event{
		Topic: event.TopicLease, Tenant: j.Tenant, Job: j.ID, Attempt: j.Attempt, Queue: j.Queue,
		Nodes: work.TaskNodes(j.Tasks), Granted: true,
	})
	tx.saveJob(before, &j)
	for i := range j.Tasks {
		tx.Grant(&work.Lease{
			Job: j.ID, Rank: uint16(i), Attempt: j.Attempt, Node: j.Tasks[i].Node, GPUs: j.Tasks[i].GPUs,
			FractionMilli: j.Shape.FractionMilli, CPUs: j.Shape.CPUDemand(), MemMB: j.Shape.MemMB,
			Token: tx.index, GrantedAt: tx.now,
		})
	}
}

// twice returns a node that is in the gang more than once; empty: none.
func twice(tasks []work.TaskPlacement) string {
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

// splitsDomains says why the places of a job are too far from each other; nil: they are not. The nodes are there.
func (tx *tx) splitsDomains(s *work.Shape, tasks []work.TaskPlacement) *kernel.Refusal {
	return work.CheckDomains(s, func(rank int) *work.Node {
		n, _ := tx.Node(tasks[rank].Node)
		return n
	})
}
