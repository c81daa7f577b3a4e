package queueverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/bounds"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

// PutQuota sets all limits of a tenant. It takes nothing away that the tenant has.
type PutQuota struct {
	Tenant     string        `cbor:"1,keyasint,omitempty"`
	MaxGPUs    *int32        `cbor:"2,keyasint,omitempty"`
	MaxRunning *int32        `cbor:"3,keyasint,omitempty"`
	MaxJobs    *int32        `cbor:"4,keyasint,omitempty"`
	By         string        `cbor:"5,keyasint,omitempty"`
	Actor      *access.Actor `cbor:"6,keyasint,omitempty"`
	MaxByType  typed.Limits  `cbor:"7,keyasint,omitempty"`
	// MaxGPUHours is for each month.
	MaxGPUHours *int32 `cbor:"8,keyasint,omitempty"`
	// MaxSubmissions and MaxSpecMB replace the bounds that every tenant has; bounds.None: no bound.
	MaxSubmissions *int32 `cbor:"9,keyasint,omitempty"`
	MaxSpecMB      *int32 `cbor:"10,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PutQuota) CommandNumber() uint16 { return 21 }

// AtLevel implements kernel.Leveled.
func (c PutQuota) AtLevel(at level.Level) (kernel.Command, error) {
	if c.MaxSubmissions != nil || c.MaxSpecMB != nil {
		return c, bounds.Gate.Check(at)
	}
	return c, nil
}

func init() { verbs.Add(lifecycle.Verb("PutQuota", putQuota, auditPutQuota)) }

// QuotaResult is the quota as it is after the command (nil when it was deleted), or why nothing was done.
type QuotaResult struct {
	Quota   *work.Quota
	Refusal *kernel.Refusal
}

func putQuota(tx *lifecycle.Tx, c *PutQuota) QuotaResult {
	if c.Tenant == "" || len(c.Tenant) > work.MaxQuotaText || len(c.By) > work.MaxQuotaText {
		return QuotaResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadQuotaTenant, work.MaxQuotaText)}
	}
	for _, limit := range []*int32{c.MaxGPUs, c.MaxRunning, c.MaxJobs, c.MaxGPUHours} {
		if limit != nil && *limit < 0 {
			return QuotaResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.NegativeLimit)}
		}
	}
	for _, bound := range []*int32{c.MaxSubmissions, c.MaxSpecMB} {
		if bound != nil && *bound < bounds.None {
			return QuotaResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.NegativeLimit)}
		}
	}
	if !c.MaxByType.Valid() {
		return QuotaResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadTypeLimits, typed.MaxLimits, typed.MaxName)}
	}
	q := &work.Quota{
		Tenant: c.Tenant, MaxGPUs: c.MaxGPUs, MaxRunning: c.MaxRunning, MaxJobs: c.MaxJobs, MaxByType: c.MaxByType, MaxGPUHours: c.MaxGPUHours,
		MaxSubmissions: c.MaxSubmissions, MaxSpecMB: c.MaxSpecMB,
		UpdatedBy: c.By, UpdatedAt: tx.Now, Revision: tx.Index,
	}
	old, there := tx.Quota(c.Tenant)
	tx.SetQuota(c.Tenant, q)
	if there && !sameLimit(old.MaxGPUHours, q.MaxGPUHours) {
		tx.ReopenHours(c.Tenant)
	}
	tx.Emit(event.Event{Topic: event.TopicQuota, Tenant: c.Tenant, Name: c.Tenant})
	return QuotaResult{Quota: q}
}

func sameLimit(a, b *int32) bool { return a == b || a != nil && b != nil && *a == *b }

func auditPutQuota(tx *kernel.Tx, c *PutQuota, result QuotaResult) {
	q := work.Quota{
		MaxGPUs: c.MaxGPUs, MaxRunning: c.MaxRunning, MaxJobs: c.MaxJobs, MaxByType: c.MaxByType, MaxGPUHours: c.MaxGPUHours,
		MaxSubmissions: c.MaxSubmissions, MaxSpecMB: c.MaxSpecMB,
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditQuotaPut, Object: c.Tenant, Message: q.Said()}, result.Refusal)
}

// AuditQuotaPut is the action in the audit log.
var AuditQuotaPut = access.DefineAction(14, "quota.put", access.AboutOperation)
