package apply

import (
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

func putQueue(tx *tx, c *work.PutQueue) any {
	q := c.Queue
	if q.Name == "" || len(q.Name) > work.MaxQueueName {
		return work.QueueResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadQueueName, work.MaxQueueName)}
	}
	if q.Weight == 0 {
		q.Weight = 1
	}
	q.CreatedAt, q.UpdatedAt, q.Revision = tx.now, tx.now, tx.index
	if old, ok := tx.Queue(q.Name); ok {
		q.CreatedAt = old.CreatedAt
	}
	tx.SetQueue(&q)
	tx.emit(event.Event{Topic: event.TopicQueue, Name: q.Name, Queue: q.Name})
	return work.QueueResult{Queue: &q}
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
	tx.DropQueue(c.Name)
	tx.emit(event.Event{Topic: event.TopicQueue, Name: c.Name, Queue: c.Name})
	return work.QueueResult{}
}
