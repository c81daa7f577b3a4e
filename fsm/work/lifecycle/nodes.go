package lifecycle

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/tables"
)

// SaveNode puts a changed node in, after its state was derived again, and says so. n is a copy that nobody else holds.
func (tx *Tx) SaveNode(old, n *work.Node) {
	switch {
	case n.LostSince != 0:
		n.State = v1.NodeState_LOST
	case n.UnreachableSince != 0:
		n.State = v1.NodeState_UNREACHABLE
	case n.Drain != nil && tx.InUse(n.ID).Tasks == 0:
		n.State = v1.NodeState_DRAINED
	case n.Drain != nil:
		n.State = v1.NodeState_DRAINING
	case n.Unfit != "":
		n.State = v1.NodeState_UNFIT
	default:
		n.State = v1.NodeState_READY
	}
	n.UpdatedAt, n.Revision = tx.Now, tx.Index
	e := event.Event{Topic: event.TopicNode, Nodes: []string{n.ID}, NodeTo: n.State}
	if old != nil {
		e.NodeFrom = old.State
	}
	tx.PutNode(old, n)
	tx.Emit(e)
	tx.BreakPromises(n.ID)
}

// emptied is called when a lease on a node ended: a drain may be complete.
func (tx *Tx) emptied(id string) {
	n, ok := tx.Node(id)
	if !ok || n.State != v1.NodeState_DRAINING || tx.InUse(id).Tasks != 0 {
		return
	}
	done := *n
	tx.SaveNode(n, &done)
}

// TasksOn lists the jobs with a lease on a node. It is a list, because the leases change while it is worked on.
func (tx *Tx) TasksOn(node string) []tables.LeaseKey {
	var keys []tables.LeaseKey
	for l := range tx.LeasesOn(node) {
		keys = append(keys, tables.LeaseKey{Node: l.Node, Job: l.Job, Rank: l.Rank})
	}
	return keys
}

// StopTasksOn asks every attempt with a task on the node to stop, unless it is stopping already.
func (tx *Tx) StopTasksOn(node string, stop v1.StopReason_Value, why reason.Reason) int {
	n := 0
	for _, k := range tx.TasksOn(node) {
		old, ok := tx.Job(k.Job)
		if !ok || old.Stop != v1.StopReason_UNSPECIFIED {
			continue
		}
		j := *old
		tx.AskToStop(&j, stop, j.Grace, why)
		tx.SaveJob(old, &j)
		n++
	}
	return n
}
