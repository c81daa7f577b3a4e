package lifecycle

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/bounds"
)

// overTypes says why the places of a job would be more of a type of GPU than a limit allows, even when some jobs have left;
// empty: they would not.
func (tx *Tx) overTypes(j *work.Job, places []work.TaskPlacement, gone []ident.Job) reason.Reason {
	quota, limited := tx.Quota(j.Tenant)
	limited = limited && len(quota.MaxByType) > 0
	for q := range tx.Lineage(j.Queue) {
		limited = limited || len(q.MaxByType) > 0
	}
	if !limited || !j.Shape.NeedsGPU() {
		return ""
	}
	if quota == nil {
		quota = &work.Quota{}
	}
	need := work.TypesOf(places, j.Shape, tx.Node)
	for _, n := range need {
		left, own := map[string]int{}, 0
		for _, id := range gone {
			v, _ := tx.Job(id)
			for _, was := range work.TypesOf(work.Placed(v.Tasks), v.Shape, tx.Node) {
				if was.Type != n.Type {
					continue
				}
				for q := range tx.Lineage(v.Queue) {
					left[q.Name] += was.Milli
				}
				if v.Tenant == j.Tenant {
					own += was.Milli
				}
			}
		}
		for q := range tx.Lineage(j.Queue) {
			if why := q.BarsType(n.Type, tx.QueueTreeOfType(q.Name, n.Type)-left[q.Name], n.Milli); why != "" {
				return why
			}
		}
		if why := quota.BarsType(n.Type, tx.HeldOfType(j.Tenant, n.Type)-own, n.Milli); why != "" {
			return why
		}
	}
	return ""
}

// overQuota says why a job must not be given its leases now; empty: it may.
func (tx *Tx) overQuota(j *work.Job, places []work.TaskPlacement) reason.Reason {
	return tx.OverQuotaWithout(j, places, nil)
}

// OverQuotaWithout says why it must not be given its leases even when some running jobs have left.
func (tx *Tx) OverQuotaWithout(j *work.Job, places []work.TaskPlacement, gone []ident.Job) reason.Reason {
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
	return q.BarsHours(tx.Budget(j.Tenant).SpentBy(tx.Now), tx.Now, j.Shape)
}

// AdmitMore says why a tenant may not have n more unfinished jobs; nil: it may.
func (tx *Tx) AdmitMore(tenant string, n int) *kernel.Refusal {
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

// AdmitSubmission says why a tenant may not have one more unfinished submission with such a spec; nil: it may.
func (tx *Tx) AdmitSubmission(tenant string, spec int) *kernel.Refusal {
	if !tx.Entry.Open(bounds.Gate) {
		return nil
	}
	q, _ := tx.Quota(tenant)
	if q == nil {
		q = &work.Quota{}
	}
	most, bounded := bounds.Of(q.MaxSubmissions, bounds.Submissions)
	if have := tx.UsageNow(tenant).Submissions; bounded && have >= most {
		return &kernel.Refusal{Code: kernel.CodeResourceExhausted, Quota: true, Reason: reason.New(reason.QuotaOfSubmissions, have, most, tenant)}
	}
	return tx.AdmitSpec(tenant, spec)
}

// AdmitSpec says why the specs of a tenant's unfinished submissions may not have so many more bytes; nil: they may.
func (tx *Tx) AdmitSpec(tenant string, more int) *kernel.Refusal {
	if !tx.Entry.Open(bounds.Gate) || more <= 0 {
		return nil
	}
	q, _ := tx.Quota(tenant)
	if q == nil {
		q = &work.Quota{}
	}
	most, bounded := bounds.Of(q.MaxSpecMB, bounds.SpecMB)
	if have := tx.UsageNow(tenant).SpecBytes; bounded && have+more > most<<20 {
		return &kernel.Refusal{Code: kernel.CodeResourceExhausted, Quota: true, Reason: reason.New(reason.QuotaOfSpecs, have>>20, most, more, tenant)}
	}
	return nil
}
