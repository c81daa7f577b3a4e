package queueverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// DeleteQuota takes all limits of a tenant away.
type DeleteQuota struct {
	Tenant string        `cbor:"1,keyasint,omitempty"`
	Actor  *access.Actor `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (DeleteQuota) CommandNumber() uint16 { return 22 }

func init() { verbs.Add(lifecycle.Verb("DeleteQuota", deleteQuota, auditDeleteQuota)) }

func deleteQuota(tx *lifecycle.Tx, c *DeleteQuota) QuotaResult {
	if _, there := tx.Quota(c.Tenant); !there {
		return QuotaResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoQuota, c.Tenant)}
	}
	tx.SetQuota(c.Tenant, nil)
	tx.ReopenHours(c.Tenant)
	tx.Emit(event.Event{Topic: event.TopicQuota, Tenant: c.Tenant, Name: c.Tenant})
	return QuotaResult{}
}

func auditDeleteQuota(tx *kernel.Tx, c *DeleteQuota, result QuotaResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditQuotaDelete, Object: c.Tenant}, result.Refusal)
}

// AuditQuotaDelete is the action in the audit log.
var AuditQuotaDelete = access.DefineAction(15, "quota.delete", access.AboutOperation)
