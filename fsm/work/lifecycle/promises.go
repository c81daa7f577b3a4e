package lifecycle

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/promises"
)

// EndPromise takes a promise out, and tells that its places may be free for others.
func (tx *Tx) EndPromise(p *promises.Promise) {
	tx.DropPromise(p)
	tx.EmitUnpromised(p)
}

func (tx *Tx) EmitUnpromised(p *promises.Promise) {
	if j, ok := tx.Job(p.Job); ok {
		tx.Emit(event.Event{Topic: event.TopicLease, Tenant: j.Tenant, Job: j.ID, Attempt: j.Attempt, Queue: j.Queue, Nodes: p.Nodes()})
	}
}

// BreakPromises ends those that have a place on a node which it has no more.
func (tx *Tx) BreakPromises(node string) {
	if tx.PromiseCount() == 0 {
		return
	}
	var gpus uint64
	n, known := tx.Node(node)
	if known {
		gpus = promises.GPUsOf(n)
	}
	var gone []*promises.Promise
	for p := range tx.Promises() {
		if slices.ContainsFunc(p.Tasks, func(t work.TaskPlacement) bool { return t.Node == node && (!known || t.GPUs&^gpus != 0) }) {
			gone = append(gone, p)
		}
	}
	for _, p := range gone {
		tx.EndPromise(p)
	}
}
