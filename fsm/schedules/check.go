package schedules

import (
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// check reports what does not hold of the schedules.
func (t *Timetable) check(jobs Jobs, report kernel.Report) {
	due, tenant, ofTenant := 0, "", 0
	for s := range t.rows.Rows() {
		if s.Tenant != tenant {
			tenant, ofTenant = s.Tenant, 0
		}
		if ofTenant++; ofTenant == MaxOfTenant+1 {
			report("%q has more than %d schedules", tenant, MaxOfTenant)
		}
		if s.Name == "" || s.Tenant == "" || len(s.Job) == 0 || s.Overlap < Skip || s.Overlap > Replace {
			report("the schedule %q of %q has a job of %d bytes and overlaps by %d", s.Name, s.Tenant, len(s.Job), s.Overlap)
		}
		if s.Next <= s.LastFor {
			report("I18: the schedule %q of %q was run for %d, and is due at %d", s.Name, s.Tenant, s.LastFor, s.Next)
		}
		if j, ok := jobs.Job(s.LastJob); ok && j.Tenant != s.Tenant {
			report("I18: the schedule %q of %q has submitted %s, of %q", s.Name, s.Tenant, j.ID, j.Tenant)
		}
		if err := s.LastReason.Valid(); err != nil {
			report("the last run of schedule %q: %v", s.Name, err)
		}
		if s.Paused {
			continue
		}
		if due++; !t.due.Has(dueAt{s.Next, s.Key()}) {
			report("the schedule %q of %q is not listed as due at %d", s.Name, s.Tenant, s.Next)
		}
	}
	if due != t.due.Len() {
		report("%d schedules are listed as due, and %d are", t.due.Len(), due)
	}
	if t.rows.Len() > Max {
		report("there are %d schedules", t.rows.Len())
	}
}
