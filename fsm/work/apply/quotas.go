package apply

import (
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

// overQuota says why a job must not be given its leases now; empty: it may.
func (tx *tx) overQuota(j *work.Job, places []work.TaskPlacement) reason.Reason {
	return tx.overQuotaWithout(j, places, nil)
}

// overQuotaWithout says why it must not be given its leases even when some running jobs have left.
func (tx *tx) overQuotaWithout(j *work.Job, places []work.TaskPlacement, gone []ident.Job) reason.Reason {
	left, tenant := map[string]int{}, work.Usage{}
	for _, id := range gone {
		v, _ := tx.Job(id)
		for q := range tx.Lineage(v.Queue) {
			left[q.Name] += v.Shape.GPUMilli()
		}
		if v.Tenant == j.Tenant {
			tenant.Grant(v.Shape)
		}
	}
	for q := range tx.Lineage(j.Queue) {
		if why := q.Bars(tx.GPUsIn(q.Name)-left[q.Name], j.Shape); why != "" {
			return why
		}
	}
	if why := tx.overTypes(j, places, gone); why != "" || !tx.Limited(j.Tenant) {
		return why
	}
	q, _ := tx.Quota(j.Tenant)
	u := tx.UsageNow(j.Tenant)
	u.GPUMilli -= tenant.GPUMilli
	u.Running -= tenant.Running
	if why := q.Bars(u, j.Shape); why != "" {
		return why
	}
	return q.BarsHours(tx.Budget(j.Tenant).SpentBy(tx.now), tx.now, j.Shape)
}

// admitMore says why a tenant may not have n more unfinished jobs; nil: it may.
func (tx *tx) admitMore(tenant string, n int) *kernel.Refusal {
	if !tx.Limited(tenant) {
		return nil
	}
	q, _ := tx.Quota(tenant)
	if q.MaxJobs == nil {
		return nil
	}
	if have := tx.UsageNow(tenant).Unfinished; have+n > int(*q.MaxJobs) {
		return &kernel.Refusal{Code: kernel.CodeResourceExhausted, Quota: true, Reason: reason.New(reason.QuotaOfJobs, have, *q.MaxJobs)}
	}
	return nil
}

func putQuota(tx *tx, c *work.PutQuota) any {
	if c.Tenant == "" || len(c.Tenant) > work.MaxQuotaText || len(c.By) > work.MaxQuotaText {
		return work.QuotaResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadQuotaTenant, work.MaxQuotaText)}
	}
	for _, limit := range []*int32{c.MaxGPUs, c.MaxRunning, c.MaxJobs, c.MaxGPUHours} {
		if limit != nil && *limit < 0 {
			return work.QuotaResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.NegativeLimit)}
		}
	}
	if !c.MaxByType.Valid() {
		return work.QuotaResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadTypeLimits, typed.MaxLimits, typed.MaxName)}
	}
	q := &work.Quota{
		Tenant: c.Tenant, MaxGPUs: c.MaxGPUs, MaxRunning: c.MaxRunning, MaxJobs: c.MaxJobs, MaxByType: c.MaxByType, MaxGPUHours: c.MaxGPUHours,
		UpdatedBy: c.By, UpdatedAt: tx.now, Revision: tx.index,
	}
	tx.SetQuota(c.Tenant, q)
	tx.emit(event.Event{Topic: event.TopicQuota, Tenant: c.Tenant, Name: c.Tenant})
	return work.QuotaResult{Quota: q}
}

func deleteQuota(tx *tx, c *work.DeleteQuota) any {
	if !tx.Limited(c.Tenant) {
		return work.QuotaResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoQuota, c.Tenant)}
	}
	tx.SetQuota(c.Tenant, nil)
	tx.emit(event.Event{Topic: event.TopicQuota, Tenant: c.Tenant, Name: c.Tenant})
	return work.QuotaResult{}
}
