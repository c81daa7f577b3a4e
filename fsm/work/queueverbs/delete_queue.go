package queueverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// DeleteQueue takes away a queue that no unfinished job is in.
type DeleteQueue struct {
	Name  string        `cbor:"1,keyasint,omitempty"`
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (DeleteQueue) CommandNumber() uint16 { return 8 }

func init() { verbs.Add(lifecycle.Verb("DeleteQueue", deleteQueue, auditDeleteQueue)) }

func deleteQueue(tx *lifecycle.Tx, c *DeleteQueue) QueueResult {
	if _, ok := tx.Queue(c.Name); !ok {
		return QueueResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoQueue, c.Name)}
	}
	if c.Name == work.DefaultQueue {
		return QueueResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueStays, work.DefaultQueue)}
	}
	if tx.UnfinishedIn(c.Name) > 0 {
		// How many, and whose, is for their tenants to know.
		return QueueResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueInUse, c.Name)}
	}
	for q := range tx.Queues() {
		if q.Parent == c.Name {
			return QueueResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.QueueIsParent, c.Name, q.Name)}
		}
	}
	tx.DropQueue(c.Name)
	tx.Emit(event.Event{Topic: event.TopicQueue, Name: c.Name, Queue: c.Name})
	return QueueResult{}
}

func auditDeleteQueue(tx *kernel.Tx, c *DeleteQueue, result QueueResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditQueueDelete, Object: c.Name}, result.Refusal)
}

// AuditQueueDelete is the action in the audit log.
var AuditQueueDelete = access.DefineAction(11, "queue.delete", access.AboutOperation)
