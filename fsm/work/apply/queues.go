package apply

import (
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

func putQueue(tx *tx, c *work.PutQueue) any {
	q := c.Queue
	if q.Name == "" || len(q.Name) > work.MaxQueueName {
		return work.QueueResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadQueueName, work.MaxQueueName)}
	}
	if q.Weight == 0 {
		q.Weight = 1
	}
	if !q.MaxByType.Valid() {
		return work.QueueResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadTypeLimits, typed.MaxLimits, typed.MaxName)}
	}
	q.CreatedAt, q.UpdatedAt, q.Revision, q.Moved = tx.now, tx.now, tx.index, 0
	old, existed := tx.Queue(q.Name)
	if existed {
		q.CreatedAt, q.Moved = old.CreatedAt, old.Moved
	}
	if q.Parent != "" || existed && old.Parent != "" {
		if r := tx.admitParent(&q); r != nil {
			return work.QueueResult{Refusal: r}
		}
		if !existed || old.Parent != q.Parent {
			q.Moved = tx.index
		}
	}
	if r := tx.admitGuarantee(&q); r != nil {
		return work.QueueResult{Refusal: r}
	}
	tx.SetQueue(&q)
	tx.emit(event.Event{Topic: event.TopicQueue, Name: q.Name, Queue: q.Name})
	return work.QueueResult{Queue: &q}
}

// admitParent says why a queue cannot be a part of the one that it names; nil: it can.
func (tx *tx) admitParent(q *work.Queue) *kernel.Refusal {
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
	// What is below it moves with it.
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

func deleteQueue(tx *tx, c *work.DeleteQueue) any {
	if _, ok := tx.Queue(c.Name); !ok {
		return work.QueueResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoQueue, c.Name)}
	}
	if c.Name == work.DefaultQueue {
		return work.QueueResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueStays, work.DefaultQueue)}
	}
	if tx.UnfinishedIn(c.Name) > 0 {
		// How many, and whose, is for their tenants to know.
		return work.QueueResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueInUse, c.Name)}
	}
	for q := range tx.Queues() {
		if q.Parent == c.Name {
			return work.QueueResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueIsParent, c.Name, q.Name)}
		}
	}
	tx.DropQueue(c.Name)
	tx.emit(event.Event{Topic: event.TopicQueue, Name: c.Name, Queue: c.Name})
	return work.QueueResult{}
}
