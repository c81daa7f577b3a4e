package fsm

// tenantQueue is a tenant's part of a queue.
type tenantQueue struct{ tenant, queue string }

// tenantFigures is what one tenant has in one queue: all that it is told of how full a queue is.
type tenantFigures struct {
	of      tenantQueue
	figures *queueFigures
}

// QueueCountsOf is QueueCounts of one tenant's jobs.
func (v *View) QueueCountsOf(tenant, queue string) Counts { return v.share(tenant, queue).counts }

// QueueHeldOf is QueueHeld of one tenant's jobs.
func (v *View) QueueHeldOf(tenant, queue string) int { return v.share(tenant, queue).held }

// HeldOf is how many jobs of one tenant are queued and held back.
func (v *View) HeldOf(tenant string) int {
	held := 0
	v.queues.shares.tree.AscendGreaterOrEqual(tenantFigures{of: tenantQueue{tenant: tenant}}, func(f tenantFigures) bool {
		if f.of.tenant != tenant {
			return false
		}
		held += f.figures.held
		return true
	})
	return held
}

// QueueGPUsOf is QueueGPUs of one tenant's jobs.
func (v *View) QueueGPUsOf(tenant, queue string) int { return v.share(tenant, queue).gpuMilli }

// CountsOf is Counts of one tenant's jobs.
func (v *View) CountsOf(tenant string) Counts {
	var sum Counts
	v.queues.shares.tree.AscendGreaterOrEqual(tenantFigures{of: tenantQueue{tenant: tenant}}, func(f tenantFigures) bool {
		if f.of.tenant != tenant {
			return false
		}
		for state, n := range f.figures.counts {
			sum[state] += n
		}
		return true
	})
	return sum
}

func (v *View) share(tenant, queue string) queueFigures {
	if f, ok := v.queues.shares.tree.Get(tenantFigures{of: tenantQueue{tenant, queue}}); ok {
		return *f.figures
	}
	return queueFigures{}
}

func checkShares(s *state, report func(string, ...any)) {
	want := map[tenantQueue]*queueFigures{}
	at := func(j *Job) *queueFigures {
		k := tenantQueue{j.Tenant, j.Queue}
		if want[k] == nil {
			want[k] = &queueFigures{}
		}
		return want[k]
	}
	for j := range s.jobs.rows.rows() {
		at(j).counts[j.State&15]++
		if j.HeldBack() {
			at(j).held++
		}
	}
	for l := range s.Leases() {
		if j, ok := s.Job(l.Job); ok {
			at(j).gpuMilli += l.gpuMilli()
		}
	}
	for f := range s.queues.shares.all() {
		counted := want[f.of]
		if counted == nil {
			counted = &queueFigures{} // Its last job was dropped.
		}
		if *f.figures != *counted {
			report("I11: the figures of tenant %q in queue %q are %v, counted anew %v", f.of.tenant, f.of.queue, *f.figures, *counted)
		}
		delete(want, f.of)
	}
	if len(want) > 0 {
		report("I11: %d parts of queues that tenants have are not counted", len(want))
	}
}
