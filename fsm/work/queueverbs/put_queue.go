package queueverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

// PutQueue makes a queue, or changes one.
type PutQueue struct {
	Queue work.Queue    `cbor:"1,keyasint,omitempty"`
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PutQueue) CommandNumber() uint16 { return 7 }

func init() { verbs.Add(lifecycle.Verb("PutQueue", putQueue, auditPutQueue)) }

// QueueResult is the queue as it is after the command (nil when it was deleted), or why nothing was done.
type QueueResult struct {
	Queue   *work.Queue
	Refusal *kernel.Refusal
}

// admitGuarantee says why a queue cannot be guaranteed what it asks for, beside the others; nil: it can.
func admitGuarantee(tx *lifecycle.Tx, q *work.Queue) *kernel.Refusal {
	below, beside, any := uint64(0), uint64(q.Guaranteed), q.Guaranteed != 0
	for other := range tx.Queues() {
		any = any || other.Guaranteed != 0
		switch {
		case other.Name == q.Name:
		case other.Parent == q.Name:
			below += uint64(other.Guaranteed)
		case q.Parent != "" && other.Parent == q.Parent:
			beside += uint64(other.Guaranteed)
		}
	}
	if !any {
		return nil
	}
	if below > uint64(q.Guaranteed) {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.GuaranteeTooLarge, q.Name, int64(below), q.Guaranteed)
	}
	if q.Parent == "" {
		return nil
	}
	if above, ok := tx.Queue(q.Parent); ok && q.Guaranteed > 0 && beside > uint64(above.Guaranteed) {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.GuaranteeTooLarge, above.Name, int64(beside), above.Guaranteed)
	}
	return nil
}

func putQueue(tx *lifecycle.Tx, c *PutQueue) QueueResult {
	q := c.Queue
	if q.Name == "" || len(q.Name) > work.MaxQueueName {
		return QueueResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadQueueName, work.MaxQueueName)}
	}
	if q.Weight == 0 {
		q.Weight = 1
	}
	if !q.MaxByType.Valid() {
		return QueueResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadTypeLimits, typed.MaxLimits, typed.MaxName)}
	}
	q.CreatedAt, q.UpdatedAt, q.Revision, q.Moved = tx.Now, tx.Now, tx.Index, 0
	old, existed := tx.Queue(q.Name)
	if existed {
		q.CreatedAt, q.Moved = old.CreatedAt, old.Moved
	}
	if q.Parent != "" || existed && old.Parent != "" {
		if r := admitParent(tx, &q); r != nil {
			return QueueResult{Refusal: r}
		}
		if !existed || old.Parent != q.Parent {
			q.Moved = tx.Index
		}
	}
	if r := admitGuarantee(tx, &q); r != nil {
		return QueueResult{Refusal: r}
	}
	tx.SetQueue(&q)
	tx.Emit(event.Event{Topic: event.TopicQueue, Name: q.Name, Queue: q.Name})
	return QueueResult{Queue: &q}
}

// admitParent says why a queue cannot be a part of the one that it names; nil: it can.
func admitParent(tx *lifecycle.Tx, q *work.Queue) *kernel.Refusal {
	if q.Parent == "" {
		return nil
	}
	if _, ok := tx.Queue(q.Parent); !ok {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NoParentQueue, q.Parent)
	}
	above := 0
	for p := range tx.Lineage(q.Parent) {
		if p.Name == q.Name {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueOfItself, q.Name, q.Parent)
		}
		above++
	}
	// The queues below it move with it.
	below := 0
	for other := range tx.Queues() {
		levels := 0
		for p := range tx.Lineage(other.Name) {
			if p.Name == q.Name {
				below = max(below, levels)
				break
			}
			levels++
		}
	}
	if above+1+below > work.MaxQueueDepth {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueTooDeep, work.MaxQueueDepth)
	}
	return nil
}

func auditPutQueue(tx *kernel.Tx, c *PutQueue, result QueueResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditQueuePut, Object: c.Queue.Name, Message: c.Queue.Said()}, result.Refusal)
}

// AuditQueuePut is the action in the audit log.
var AuditQueuePut = access.DefineAction(10, "queue.put", access.AboutOperation)
