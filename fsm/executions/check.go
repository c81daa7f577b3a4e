package executions

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// check reports what does not hold of executions and decisions.
func (t *Book) check(standing func(ident.Job) Standing, report kernel.Report) {
	ready, live, finished, timers, jobs, events, keys := 0, 0, 0, 0, 0, 0, 0
	var statuses, answers tally
	for e := range t.executions.Rows() {
		statuses.add(uint8(e.Status), true)
		if statusNames[e.Status] == "" || e.Tenant == "" || e.Core == 0 {
			report("the execution %s of %s has the status %d and the tenant %q", e.ID, e.Core, e.Status, e.Tenant)
		}
		if !t.byTenant.Has(ofTenant{e.Tenant, e.ID}) {
			report("the execution %s is not listed under %q", e.ID, e.Tenant)
		}
		if e.Key != "" {
			keys++
		}
		if e.Depth > MaxDepth || len(e.Steps) > MaxSteps || len(e.Frame) > MaxFrame {
			report("the execution %s is %d deep, and has %d steps and a frame of %d bytes", e.ID, e.Depth, len(e.Steps), len(e.Frame))
		}
		if e.Status.Over() {
			finished++
			if len(e.Waits) > 0 {
				report("I22: the execution %s is over, and waits for %d things", e.ID, len(e.Waits))
			}
			continue
		}
		live++
		if settled := Edit(e); true {
			if settled.Settle(); settled.Status != e.Status {
				report("the execution %s is %s, and should be %s", e.ID, e.Status, settled.Status)
			}
		}
		if e.Status == Ready {
			ready++
			if !t.ready.Has(ofCore{e.Core, e.ID}) {
				report("the execution %s is ready, and no leader sees it", e.ID)
			}
		}
		last := uint32(0)
		for i := range e.Waits {
			w := &e.Waits[i]
			if w.ID <= last {
				report("I19: the waits of %s are not in order: %d after %d", e.ID, w.ID, last)
			}
			last = w.ID
			if w.Done {
				continue
			}
			timers++
			if w.wakes() <= 0 || !t.timers.Has(timer{at: w.wakes(), id: e.ID, wait: w.ID}) {
				report("I22: nothing ends the wait %d of %s for %s", w.ID, e.ID, w.Kind)
			}
			switch w.Kind {
			case ForJob:
				jobs++
				if !standing(w.Job).Lives {
					report("I22: %s waits for the job %s, which is over or not there", e.ID, w.Job)
				}
			case ForDecision:
				if d, ok := t.decisions.Get(w.Decision); !ok || d.Status != Pending || d.Execution != e.ID || d.Wait != w.ID {
					report("I22: %s waits for the decision %s, which is not pending for it", e.ID, w.Decision)
				}
			case ForExecution:
				if c, ok := t.executions.Get(w.Execution); !ok || c.Status.Over() || c.Parent != e.ID || c.ParentWait != w.ID {
					report("I22: %s waits for %s, which does not run for it", e.ID, w.Execution)
				}
			case ForEvent:
				events++
			}
		}
	}
	pending, asked, gates, all, untold := 0, 0, 0, 0, 0
	for d := range t.decisions.Rows() {
		answers.add(uint8(d.Status), true)
		all++
		if decisionNames[d.Status] == "" || d.Needed < 1 || d.Of < d.Needed {
			report("the decision %s has the status %d and needs %d of %d", d.ID, d.Status, d.Needed, d.Of)
		}
		switch {
		case (d.Execution == 0) == (d.Job == 0):
			report("the decision %s is asked by the execution %s and the job %s", d.ID, d.Execution, d.Job)
		case d.Job == 0:
			asked++
		default:
			gates++
			if at := standing(d.Job); (d.Status == Pending || d.Owed) && !(at.Lives && at.Stops) {
				report("I22: the job %s does not wait at the gate of the decision %s, which is %s", d.Job, d.ID, d.Status)
			}
			if d.Owed && !d.Passed() {
				report("the decision %s is %s, and the job %s is to go on", d.ID, d.Status, d.Job)
			}
		}
		if (d.Status == Resolved) != (d.ResolvedAt != 0) {
			report("I21: the decision %s is %s, and was resolved at %d", d.ID, d.Status, d.ResolvedAt)
		}
		if len(d.Untold) > 0 {
			untold++
		}
		if why := d.wrongNotices(); why != "" {
			report("the decision %s %s", d.ID, why)
		}
		if d.Status == Pending {
			pending++
			if at := d.wakes(); at != 0 {
				timers++
			} else {
				report("I22: nothing ends the decision %s", d.ID)
			}
		}
	}
	bytes, happened := 0, 0
	for s := range t.segments.Rows() {
		if t.happened.Has(ofExecution{s.Execution, s.ID}) {
			happened++
		}
		bytes += s.size()
	}
	if happened != t.segments.Len() || happened != t.happened.Len() {
		report("%d of %d segments of events are listed under their executions, in a list of %d", happened, t.segments.Len(), t.happened.Len())
	}
	if bytes != t.bytes || bytes > MaxEventBytes || t.segments.Len() > MaxSegments {
		report("%d segments of events have %d bytes, and %d are counted", t.segments.Len(), bytes, t.bytes)
	}
	got := [...]int{
		t.ready.Len(), t.live.Len(), t.finished.Len(), t.timers.Len(), t.jobs.Len(), t.events.Len(), t.keys.Len(),
		t.pending.Len(), t.asked.Len(), t.gates.Len(), t.all.Len(), t.untold.Len(),
	}
	if want := [...]int{ready, live, finished, timers, jobs, events, keys, pending, asked, gates, all, untold}; got != want {
		report("ready, live, finished, timers, jobs, events, keys, pending, asked, gates, all, untold: %v are listed, and there are %v", got, want)
	}
	if statuses != t.statuses || answers != t.answers {
		report("executions and decisions by status: %v and %v are kept, and there are %v and %v", t.statuses, t.answers, statuses, answers)
	}
	counted := 0
	for c := range t.counts.All() {
		counted += c.n
	}
	if counted != live {
		report("%d executions are live, and %d are counted by tenant", live, counted)
	}
}
