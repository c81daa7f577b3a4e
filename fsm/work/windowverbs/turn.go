package windowverbs

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/windows"
)

// Turn begins and ends the windows whose time has come.
func Turn(tx *lifecycle.Tx) {
	for w := tx.DueWindow(tx.Now); w != nil; w = tx.DueWindow(tx.Now) {
		if w.Begun || w.Until <= tx.Now {
			endWindow(tx, w)
		} else {
			beginWindow(tx, w)
		}
	}
}

func beginWindow(tx *lifecycle.Tx, old *windows.Window) {
	w := *old
	w.Begun = true
	for _, id := range w.Nodes {
		n, ok := tx.Node(id)
		switch {
		case !ok:
		case w.Kind == windows.Reservation:
			clear(tx, id, v1.StopReason_PREEMPT, reason.New(reason.NodeReserved), func(j *work.Job) bool { return j.Tenant != w.Tenant && windows.Yields(j) })
		default:
			if n.Drain == nil {
				drained := *n
				drained.Drain = &work.Drain{Since: tx.Now, Reason: reason.New(reason.UnderMaintenance, w.Name)}
				drained.Reason = work.DrainReason(drained.Drain)
				tx.SaveNode(n, &drained)
				w.Drained = append(w.Drained, id)
			}
			clear(tx, id, v1.StopReason_DRAIN, reason.New(reason.UnderMaintenance, w.Name), func(j *work.Job) bool { return !j.Retry.Never })
		}
	}
	tx.PutWindow(&w)
	emitWindow(tx, &w)
}

// clear asks the jobs on a node that must leave to stop, unless they are stopping already.
func clear(tx *lifecycle.Tx, node string, stop v1.StopReason_Value, why reason.Reason, leaves func(*work.Job) bool) {
	for _, k := range tx.TasksOn(node) {
		old, ok := tx.Job(k.Job)
		if !ok || old.Stop != v1.StopReason_UNSPECIFIED || !leaves(old) {
			continue
		}
		j := *old
		tx.AskToStop(&j, stop, j.Grace, why)
		tx.SaveJob(old, &j)
	}
}

// endWindow ends a window, and enables the nodes that it has drained.
func endWindow(tx *lifecycle.Tx, w *windows.Window) {
	tx.DropWindow(w)
	for _, id := range w.Drained {
		n, ok := tx.Node(id)
		if !ok || n.Drain == nil || n.Drain.Reason != reason.New(reason.UnderMaintenance, w.Name) {
			continue // An operator has decided otherwise since.
		}
		on := *n
		on.Drain, on.EnabledAt = nil, tx.Index
		if on.UnreachableSince == 0 {
			on.Reason = ""
		}
		tx.SaveNode(n, &on)
	}
	emitWindow(tx, w)
}
