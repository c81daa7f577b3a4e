package fsm

import (
	"fmt"
	"strconv"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Usage is what a tenant has, as far as quotas go.
type Usage struct {
	// GPUMilli is what its leases hold, in thousandths of a GPU.
	GPUMilli int
	// Running is its jobs with leases, Unfinished all that are not over.
	Running, Unfinished int
}

func (f *queueFigures) usage() Usage {
	running := f.counts[v1.JobState_ALLOCATED] + f.counts[v1.JobState_STARTING] + f.counts[v1.JobState_RUNNING]
	return Usage{GPUMilli: f.gpuMilli, Running: running, Unfinished: unfinished(f.counts)}
}

// Grant counts a job of a shape that is given its leases.
func (u *Usage) Grant(s Shape) {
	u.GPUMilli += s.GPUMilli()
	u.Running++
}

// Usage is what a tenant has in all queues together.
func (v *View) Usage(tenant string) Usage {
	total := queueFigures{counts: v.CountsOf(tenant), gpuMilli: v.gpusOf(tenant)}
	return total.usage()
}

func (v *View) gpusOf(tenant string) int {
	milli := 0
	v.queues.shares.tree.AscendGreaterOrEqual(tenantFigures{of: tenantQueue{tenant: tenant}}, func(f tenantFigures) bool {
		if f.of.tenant != tenant {
			return false
		}
		milli += f.figures.gpuMilli
		return true
	})
	return milli
}

// Bars says, for its tenant, why a quota keeps one more job of a shape from running beside what the tenant has; empty: it
// does not. The scheduler plans by it, and the state holds every plan to it again.
func (q *Quota) Bars(u Usage, s Shape) string {
	if q.MaxRunning != nil && u.Running >= int(*q.MaxRunning) {
		return fmt.Sprintf("tenant quota: %d of %d jobs running", u.Running, *q.MaxRunning)
	}
	need := s.GPUMilli()
	if q.MaxGPUs == nil || need == 0 || u.GPUMilli+need <= 1000*int(*q.MaxGPUs) {
		return ""
	}
	if need > 1000*int(*q.MaxGPUs) {
		return fmt.Sprintf("tenant quota: it needs %s GPUs, and %d is all that the tenant may have, so it cannot run until the quota is raised", gpus(need), *q.MaxGPUs)
	}
	why := fmt.Sprintf("tenant quota: %s of %d GPUs in use", gpus(u.GPUMilli), *q.MaxGPUs)
	if u.GPUMilli < 1000*int(*q.MaxGPUs) {
		why += fmt.Sprintf(", and it needs %s", gpus(need))
	}
	return why
}

// Bars says why the limit of a queue keeps one more job of a shape from running, when its jobs hold so much; empty: it
// does not. How much they hold is not told: they may be of other tenants.
func (q *Queue) Bars(gpuMilli int, s Shape) string {
	need := s.GPUMilli()
	if q.MaxGPUs == 0 || need == 0 || gpuMilli+need <= 1000*int(q.MaxGPUs) {
		return ""
	}
	if need > 1000*int(q.MaxGPUs) {
		return fmt.Sprintf("queue limit: it needs %s GPUs, and all jobs of queue %q together may have %d, so it cannot run in this queue", gpus(need), q.Name, q.MaxGPUs)
	}
	return fmt.Sprintf("queue limit: the jobs of queue %q may have %d GPUs together, and the %s that it needs are not left", q.Name, q.MaxGPUs, gpus(need))
}

func gpus(milli int) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }

// overQuota says why a job must not be given its leases now; empty: it may.
func (tx *tx) overQuota(j *Job) string {
	if q, ok := tx.Queue(j.Queue); ok && q.MaxGPUs != 0 {
		held := 0
		if slot, ok := tx.work.queues[j.Queue]; ok {
			held = slot.gpuMilli
		}
		if why := q.Bars(held, j.Shape); why != "" {
			return why
		}
	}
	if !tx.limited(j.Tenant) {
		return ""
	}
	q, _ := tx.Quota(j.Tenant)
	return q.Bars(tx.work.totalOf(j.Tenant).usage(), j.Shape)
}

// admitOneMore says why a tenant may not have one more unfinished job; nil: it may.
func (tx *tx) admitOneMore(tenant string) *Refusal {
	if !tx.limited(tenant) {
		return nil
	}
	q, _ := tx.Quota(tenant)
	if q.MaxJobs == nil {
		return nil
	}
	if have := tx.work.totalOf(tenant).usage().Unfinished; have >= int(*q.MaxJobs) {
		return &Refusal{Code: CodeResourceExhausted, Quota: true, Message: fmt.Sprintf(
			"tenant quota: %d of %d unfinished jobs; wait until some are over, cancel some, or have the quota raised", have, *q.MaxJobs)}
	}
	return nil
}

// grants is what a tenant (or a queue) was given, and when it was last given more.
type grants struct {
	Usage
	lastGPU, lastRunning, lastJob uint64
}

// checkQuotas holds I7 as one state can show it: a limit may be below what a tenant has only if nothing was granted since
// it was set. Leases carry the index of their grant, jobs that of their creation, quotas that of their last change.
func checkQuotas(s *state, report func(string, ...any)) {
	if s.quotas.rows.len() == 0 {
		return
	}
	byTenant := map[string]*grants{}
	at := func(tenant string) *grants {
		if byTenant[tenant] == nil {
			byTenant[tenant] = &grants{}
		}
		return byTenant[tenant]
	}
	for j := range s.jobs.rows.rows() {
		g := at(j.Tenant)
		if j.Live() {
			g.Running++
			g.lastRunning = max(g.lastRunning, j.Token)
		}
		if !j.Terminal() {
			g.Unfinished++
			g.lastJob = max(g.lastJob, j.Created)
		}
	}
	for l := range s.Leases() {
		if j, ok := s.Job(l.Job); ok && l.gpuMilli() > 0 {
			g := at(j.Tenant)
			g.GPUMilli += l.gpuMilli()
			g.lastGPU = max(g.lastGPU, l.Token)
		}
	}
	for q := range s.Quotas() {
		g := at(q.Tenant)
		switch {
		case q.MaxGPUs != nil && g.lastGPU > q.Revision && g.GPUMilli > 1000*int(*q.MaxGPUs):
			report("I7: tenant %q holds %s GPUs of %d, some granted at index %d, after the quota of index %d", q.Tenant, gpus(g.GPUMilli), *q.MaxGPUs, g.lastGPU, q.Revision)
		case q.MaxRunning != nil && g.lastRunning > q.Revision && g.Running > int(*q.MaxRunning):
			report("I7: tenant %q runs %d jobs of %d, one since index %d, after the quota of index %d", q.Tenant, g.Running, *q.MaxRunning, g.lastRunning, q.Revision)
		case q.MaxJobs != nil && g.lastJob > q.Revision && g.Unfinished > int(*q.MaxJobs):
			report("I7: tenant %q has %d unfinished jobs of %d, one since index %d, after the quota of index %d", q.Tenant, g.Unfinished, *q.MaxJobs, g.lastJob, q.Revision)
		}
		if q.Revision > s.meta.Index {
			report("the quota of tenant %q is of index %d, after %d", q.Tenant, q.Revision, s.meta.Index)
		}
	}
}

// checkQueueLimits is the same for queues.
func checkQueueLimits(s *state, report func(string, ...any)) {
	byQueue := map[string]*grants{}
	for l := range s.Leases() {
		j, ok := s.Job(l.Job)
		if !ok || l.gpuMilli() == 0 {
			continue
		}
		g := byQueue[j.Queue]
		if g == nil {
			g = &grants{}
			byQueue[j.Queue] = g
		}
		g.GPUMilli += l.gpuMilli()
		g.lastGPU = max(g.lastGPU, l.Token)
	}
	for q := range s.Queues() {
		if g := byQueue[q.Name]; q.MaxGPUs != 0 && g != nil && g.lastGPU > q.Revision && g.GPUMilli > 1000*int(q.MaxGPUs) {
			report("I7: the jobs of queue %q hold %s GPUs of %d, some granted at index %d, after the limit of index %d", q.Name, gpus(g.GPUMilli), q.MaxGPUs, g.lastGPU, q.Revision)
		}
	}
}
