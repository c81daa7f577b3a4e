// Package overdraft says which running jobs are warned and stopped because their tenant has used up its GPU hours of the month, and
// when.
//
// No job with GPUs starts once the hours are used up. One that runs and has no time limit would go on using them without end: it is
// warned at that moment, and stopped when the hours are exceeded by more than the policy allows, but not before it had [Notice]. A
// job with a time limit ends by itself, and is left alone. All of it follows from log time and what the tenant holds.
package overdraft

import (
	"iter"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/policy"
)

// Notice is the least time from the warning to the stop, in milliseconds: a quota that is lowered, or small for what the tenant
// holds, leaves time to save or to raise it.
const Notice = int64(10 * 60 * 1000)

// State has the rows that the rules read. *tables.State and *fsm.View implement it.
type State interface {
	Policy() policy.Policy
	Quota(tenant string) (*work.Quota, bool)
	Quotas() iter.Seq[*work.Quota]
	Budget(tenant string) *budgets.Budget
	Budgets() iter.Seq[*budgets.Budget]
	JobGroups(tenant string) iter.Seq[work.CountedGroup]
	JobsOfGroups(groups []work.CountedGroup, desc bool, from ident.Job) iter.Seq[*work.Job]
}

// Step is the next thing to do about the running jobs of a tenant.
type Step uint8

// The steps.
const (
	None Step = iota
	Warn
	Stop
)

// Due is a step of a tenant, with its time in Unix nanoseconds.
type Due struct {
	Tenant string
	Step   Step
	At     int64
}

// Next returns the earliest step of all tenants; false: there is none while everybody holds what they hold.
func Next(s State) (due int64, any bool) {
	each(s, func(d Due) {
		if !any || d.At < due {
			due, any = d.At, true
		}
	})
	return due, any
}

// Until lists the steps that are due at a time, by tenant.
func Until(s State, now int64) (all []Due) {
	each(s, func(d Due) {
		if d.At <= now {
			all = append(all, d)
		}
	})
	return all
}

func each(s State, see func(Due)) {
	p := s.Policy()
	grace, on := p.GraceOfHours()
	if !on {
		return
	}
	for q := range s.Quotas() {
		if d := next(q, s.Budget(q.Tenant), grace); d.Step != None {
			see(d)
		}
	}
}

// StopsAt returns when a job is stopped because its tenant has used up the hours, in Unix nanoseconds, if the tenant holds what it
// holds now; false: it is not, or nobody was warned.
func StopsAt(s State, j *work.Job) (at int64, ok bool) {
	if !Concerns(j) || j.Stop != v1.StopReason_UNSPECIFIED {
		return 0, false
	}
	q, limited := s.Quota(j.Tenant)
	p := s.Policy()
	grace, on := p.GraceOfHours()
	if !limited || !on {
		return 0, false
	}
	d := next(q, s.Budget(j.Tenant), grace)
	return d.At, d.Step == Stop
}

// next returns the next step of a tenant; grace is in percent of the hours.
func next(q *work.Quota, b *budgets.Budget, grace int32) Due {
	if q.MaxGPUHours == nil || b == nil || b.Stopped != 0 {
		return Due{}
	}
	limit := uint64(*q.MaxGPUHours) * budgets.Hour
	at, ok := b.Reaches(limit)
	if b.Warned == 0 {
		if !ok {
			return Due{}
		}
		return Due{q.Tenant, Warn, at * 1e6}
	}
	if at, ok = b.Reaches(limit + limit/100*uint64(grace)); !ok {
		return Due{}
	}
	if at = max(at, b.Warned+Notice); at*1e6 >= b.Ends() {
		return Due{}
	}
	return Due{q.Tenant, Stop, at * 1e6}
}

// Concerns says whether a job is one that is warned and stopped: it holds GPUs, and nothing else ends it.
func Concerns(j *work.Job) bool { return j.Live() && j.MaxRuntime == 0 && j.Shape.GPUMilli() > 0 }

// Jobs iterates the jobs of a tenant that are concerned, by id.
func Jobs(s State, tenant string) iter.Seq[*work.Job] {
	var groups []work.CountedGroup
	for g := range s.JobGroups(tenant) {
		if slices.Contains([]v1.JobState_Value{v1.JobState_ALLOCATED, v1.JobState_STARTING, v1.JobState_RUNNING}, g.State) {
			groups = append(groups, g)
		}
	}
	return func(yield func(*work.Job) bool) {
		for j := range s.JobsOfGroups(groups, false, 0) {
			if Concerns(j) && !yield(j) {
				return
			}
		}
	}
}

// Check holds I26.
func Check(s State, report kernel.Report) {
	for b := range s.Budgets() {
		if b.Warned == 0 && b.Stopped == 0 {
			continue
		}
		q, ok := s.Quota(b.Tenant)
		switch {
		case !ok || q.MaxGPUHours == nil || b.Used < uint64(*q.MaxGPUHours)*budgets.Hour:
			report("I26: tenant %q was warned at %d, and has GPU hours left", b.Tenant, b.Warned)
		case b.Stopped != 0 && (b.Warned == 0 || b.Stopped < b.Warned+Notice):
			report("I26: the jobs of tenant %q were stopped at %d, and warned at %d", b.Tenant, b.Stopped, b.Warned)
		case b.Stopped != 0:
			for j := range Jobs(s, b.Tenant) {
				if j.Stop == v1.StopReason_UNSPECIFIED && j.Ending == nil {
					report("I26: %s goes on, and the jobs of tenant %q were stopped", j.ID, b.Tenant)
				}
			}
		}
	}
}
