package tables

import (
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// grants is the sum of the leases of a tenant (or a queue), and the time of the last one.
type grants struct {
	work.Usage
	lastGPU, lastRunning, lastJob uint64
}

func checkQueues(s *rows, report kernel.Report) {
	for j := range s.jobs.rows.Rows() {
		if _, ok := s.Queue(j.Queue); !ok && !j.Terminal() {
			report("%s is in the queue %q, which does not exist", j.ID, j.Queue)
		}
	}
	s.CheckFigures(s, report)
	checkTree(s, report)
	checkQueueLimits(s, report)
}

// checkQuotas holds I7 as one state can show it: a limit may be below what a tenant has only if nothing was granted since
// it was set. Leases carry the index of their grant, jobs that of their creation, quotas that of their last change.
func checkQuotas(s *rows, report kernel.Report) {
	if s.quotas.rows.Len() == 0 {
		return
	}
	byTenant := map[string]*grants{}
	at := func(tenant string) *grants {
		if byTenant[tenant] == nil {
			byTenant[tenant] = &grants{}
		}
		return byTenant[tenant]
	}
	for j := range s.jobs.rows.Rows() {
		g := at(j.Tenant)
		if j.Live() {
			g.Running++
			g.lastRunning = max(g.lastRunning, j.Token)
		}
		if !j.Terminal() {
			g.Unfinished += j.Places()
			g.lastJob = max(g.lastJob, j.Created)
		}
	}
	for l := range s.Leases() {
		if j, ok := s.Job(l.Job); ok && l.GPUMilli() > 0 {
			g := at(j.Tenant)
			g.GPUMilli += l.GPUMilli()
			g.lastGPU = max(g.lastGPU, l.Token)
		}
	}
	for q := range s.Quotas() {
		g := at(q.Tenant)
		switch {
		case q.MaxGPUs != nil && g.lastGPU > q.Revision && g.GPUMilli > 1000*int(*q.MaxGPUs):
			report("I7: tenant %q holds %s GPUs of %d, some granted at index %d, after the quota of index %d", q.Tenant, work.FormatGPUs(g.GPUMilli), *q.MaxGPUs, g.lastGPU, q.Revision)
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

// checkTree holds that queues are a tree, and not too deep.
func checkTree(s *rows, report kernel.Report) {
	for q := range s.Queues() {
		top := q
		for above := range s.Lineage(q.Name) {
			top = above
		}
		if top.Parent == "" {
			continue
		}
		if _, ok := s.Queue(top.Parent); ok {
			report("the queue %q is below more than %d others, or below itself", q.Name, work.MaxQueueDepth-1)
		} else {
			report("the queue %q is a part of %q, which does not exist", top.Name, top.Parent)
		}
	}
}

// checkQueueLimits is the same for queues. The leases of a queue count for those that it is a part of, too, from when it
// became one of their parts.
func checkQueueLimits(s *rows, report kernel.Report) {
	byQueue := map[string]*grants{}
	for l := range s.Leases() {
		j, ok := s.Job(l.Job)
		if !ok || l.GPUMilli() == 0 {
			continue
		}
		for q := range s.Lineage(j.Queue) {
			g := byQueue[q.Name]
			if g == nil {
				g = &grants{}
				byQueue[q.Name] = g
			}
			g.GPUMilli += l.GPUMilli()
			g.lastGPU = max(g.lastGPU, l.Token)
		}
	}
	// moved is when a queue last got another part, or lost one.
	moved := map[string]uint64{}
	for q := range s.Queues() {
		for above := range s.Lineage(q.Name) {
			moved[above.Name] = max(moved[above.Name], q.Moved)
		}
	}
	for q := range s.Queues() {
		if g := byQueue[q.Name]; q.MaxGPUs != 0 && g != nil && g.lastGPU > max(q.Revision, moved[q.Name]) && g.GPUMilli > 1000*int(q.MaxGPUs) {
			report("I7: the jobs of queue %q hold %s GPUs of %d, some granted at index %d, after the limit of index %d", q.Name, work.FormatGPUs(g.GPUMilli), q.MaxGPUs, g.lastGPU, q.Revision)
		}
	}
}
