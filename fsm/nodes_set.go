package fsm

import v1 "github.com/mindcoordinator/mind/api/scaimind/v1"

func (SetNode) commandType() uint16 { return 6 }

func (c SetNode) apply(tx *tx) any {
	old, ok := tx.Node(c.ID)
	if !ok {
		return NodeResult{Refusal: refuse(CodeNotFound, "there is no node %q", c.ID)}
	}
	n := *old
	switch c.Action {
	case NodeUnreachable:
		if n.UnreachableSince != 0 {
			if tx.version < 2 || n.LostSince != 0 || c.Reason == "" || c.Reason == n.Reason {
				return NodeResult{Node: old}
			}
			n.Reason = c.Reason // It is still away; what is known of why has changed.
			break
		}
		n.UnreachableSince, n.Reason = max(tx.now, 1), c.Reason
		tx.strike(&n)
	case NodeReachable:
		if n.UnreachableSince == 0 {
			return NodeResult{Node: old}
		}
		if n.LostSince != 0 {
			return NodeResult{Refusal: refuse(CodeFailedPrecondition, "node %s was declared lost: it has to register and to say what it still runs", n.ID)}
		}
		if n.Unheard {
			return NodeResult{Refusal: refuse(CodeFailedPrecondition, "the cluster was recovered: node %s has to register and to say what it still runs", n.ID)}
		}
		n.UnreachableSince, n.Reason = 0, drainReason(n.Drain)
		tx.enrol(&n)
	case NodeDrain:
		d := &Drain{Since: tx.now, Force: c.Force, Reason: c.Reason}
		if c.Deadline > 0 {
			d.Deadline = tx.now + c.Deadline
		}
		n.Drain, n.Reason = d, drainReason(d)
	case NodeEnable:
		if n.Drain == nil && tx.version < 2 {
			return NodeResult{Node: old}
		}
		if n.Drain != nil {
			n.Drain = nil
			if n.UnreachableSince == 0 || tx.version < 2 {
				n.Reason = ""
			}
		}
		if tx.version >= 2 {
			n.EnabledAt = tx.index
		}
	case NodeForget:
		return tx.forgetNode(old)
	case NodeHealth:
		if r := validateGPUs(c.GPUs); r != nil {
			return NodeResult{Refusal: r}
		}
		n.GPUs = withVanished(c.GPUs, old.GPUs)
		tx.learnModels(n.GPUs)
	default:
		return NodeResult{Refusal: refuse(CodeInvalidArgument, "unknown node action %d", c.Action)}
	}
	tx.saveNode(old, &n)
	if c.Action == NodeDrain && c.Force {
		tx.stopTasksOn(c.ID, v1.StopReason_DRAIN, "node "+c.ID+" is being drained")
	}
	now, _ := tx.Node(c.ID)
	return NodeResult{Node: now}
}

func drainReason(d *Drain) string {
	switch {
	case d == nil:
		return ""
	case d.Reason == "":
		return "drained by an operator"
	}
	return d.Reason
}

// forgetNode ends what the node held and takes it out of the state.
func (tx *tx) forgetNode(n *Node) any {
	tx.endTasksOn(n.ID, "node "+n.ID+" was forgotten by an operator", LossForgotten)
	tx.settleAwaits(n.ID, func(TaskRef) bool { return false })
	// A gang that lost a rank here may still hold its lease until its other ranks have ended; they hold on to it by
	// name, and it is released with theirs.
	last, _ := tx.Node(n.ID)
	if last.RosterSince != 0 {
		tx.changeRoster()
	}
	tx.nodes.rows.delete(n.ID)
	if at := last.timer(); at != 0 {
		tx.nodes.timers.delete(nodeTimer{at, n.ID})
	}
	tx.nodes.away.delete(n.ID)
	tx.nodes.unheard.delete(n.ID)
	tx.emit(Event{Topic: TopicNode, Nodes: []string{n.ID}, NodeFrom: last.State})
	return NodeResult{}
}

// tasksOn lists the jobs with a lease on a node. It is a list, because the leases change while it is worked on.
func (tx *tx) tasksOn(node string) []leaseKey {
	var keys []leaseKey
	for l := range tx.LeasesOn(node) {
		keys = append(keys, leaseKey{l.Node, l.Job, l.Rank})
	}
	return keys
}

// endTasksOn ends every task on a node as lost with it.
func (tx *tx) endTasksOn(node, why string, how LossKind) {
	var loss *Loss
	if tx.version >= 2 {
		loss = &Loss{How: how}
	}
	for _, k := range tx.tasksOn(node) {
		if old, ok := tx.Job(k.job); ok {
			tx.loseTask(old, k.rank, why, loss)
		}
	}
}

// stopTasksOn asks every attempt with a task on the node to stop, unless it is stopping already.
func (tx *tx) stopTasksOn(node string, stop v1.StopReason_Value, why string) int {
	n := 0
	for _, k := range tx.tasksOn(node) {
		old, ok := tx.Job(k.job)
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
