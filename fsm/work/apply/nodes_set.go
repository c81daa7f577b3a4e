package apply

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/tables"
)

func setNode(tx *tx, c *work.SetNode) any {
	old, ok := tx.Node(c.ID)
	if !ok {
		return work.NodeResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoNode, c.ID)}
	}
	n := *old
	switch c.Action {
	case work.NodeUnreachable:
		if n.UnreachableSince != 0 {
			if n.LostSince != 0 || c.Reason == "" || c.Reason == n.Reason {
				return work.NodeResult{Node: old}
			}
			n.Reason = c.Reason // It is still away; what is known of why has changed.
			break
		}
		n.UnreachableSince, n.Reason = max(tx.now, 1), c.Reason
		tx.strike(&n)
	case work.NodeReachable:
		if n.UnreachableSince == 0 {
			return work.NodeResult{Node: old}
		}
		if n.LostSince != 0 {
			return work.NodeResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.NodeDeclaredLost, n.ID)}
		}
		if n.Unheard {
			return work.NodeResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.NodeMustRegister, n.ID)}
		}
		n.UnreachableSince, n.Reason = 0, work.DrainReason(n.Drain)
		tx.enrol(&n)
	case work.NodeDrain:
		d := &work.Drain{Since: tx.now, Force: c.Force, Reason: c.Reason}
		if c.Deadline > 0 {
			d.Deadline = tx.now + c.Deadline
		}
		n.Drain, n.Reason = d, work.DrainReason(d)
	case work.NodeEnable:
		if n.Drain != nil {
			n.Drain = nil
			if n.UnreachableSince == 0 {
				n.Reason = ""
			}
		}
		n.EnabledAt = tx.index
	case work.NodeForget:
		return tx.forgetNode(old)
	case work.NodeHealth:
		if r := validateGPUs(c.GPUs); r != nil {
			return work.NodeResult{Refusal: r}
		}
		n.GPUs = tx.withVanished(c.GPUs, old.GPUs)
		tx.LearnModels(n.GPUs)
	case work.NodeFitness:
		if n.Unfit == c.Reason {
			return work.NodeResult{Node: old}
		}
		n.Unfit = c.Reason
	default:
		return work.NodeResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownNodeAction, uint8(c.Action))}
	}
	tx.saveNode(old, &n)
	if c.Action == work.NodeDrain && c.Force {
		tx.stopTasksOn(c.ID, v1.StopReason_DRAIN, reason.New(reason.NodeBeingDrained, c.ID))
	}
	now, _ := tx.Node(c.ID)
	return work.NodeResult{Node: now}
}

// forgetNode ends what the node held and takes it out of the state.
func (tx *tx) forgetNode(n *work.Node) any {
	tx.endTasksOn(n, reason.New(reason.NodeForgotten, n.ID), work.LossForgotten)
	tx.settleAwaits(n.ID, func(work.TaskRef) bool { return false })
	// A gang that lost a rank here may still hold its lease until its other ranks have ended; they hold on to it by
	// name, and it is released with theirs.
	last, _ := tx.Node(n.ID)
	if last.RosterSince != 0 {
		tx.changeRoster()
	}
	tx.DropNode(last)
	tx.breakPromises(last.ID)
	tx.emit(event.Event{Topic: event.TopicNode, Nodes: []string{n.ID}, NodeFrom: last.State})
	return work.NodeResult{}
}

// tasksOn lists the jobs with a lease on a node. It is a list, because the leases change while it is worked on.
func (tx *tx) tasksOn(node string) []tables.LeaseKey {
	var keys []tables.LeaseKey
	for l := range tx.LeasesOn(node) {
		keys = append(keys, tables.LeaseKey{Node: l.Node, Job: l.Job, Rank: l.Rank})
	}
	return keys
}

// silentSince is since when a node has been silent: at the latest since now, when its tasks are found to be gone.
func (tx *tx) silentSince(n *work.Node) int64 {
	if n.UnreachableSince != 0 {
		return n.UnreachableSince
	}
	return tx.now
}

// endTasksOn ends every task on a node, as it was until now, as lost with it.
func (tx *tx) endTasksOn(n *work.Node, why reason.Reason, how work.LossKind) {
	loss := &work.Loss{How: how}
	for _, k := range tx.tasksOn(n.ID) {
		if old, ok := tx.Job(k.Job); ok {
			tx.loseTask(old, k.Rank, why, loss, tx.silentSince(n))
		}
	}
}

// stopTasksOn asks every attempt with a task on the node to stop, unless it is stopping already.
func (tx *tx) stopTasksOn(node string, stop v1.StopReason_Value, why reason.Reason) int {
	n := 0
	for _, k := range tx.tasksOn(node) {
		old, ok := tx.Job(k.Job)
		if !ok || old.Stop != v1.StopReason_UNSPECIFIED {
			continue
		}
		j := *old
		tx.askToStop(&j, stop, j.Grace, why)
		tx.saveJob(old, &j)
		n++
	}
	return n
}
