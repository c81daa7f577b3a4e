package joblist

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Facets counts the jobs of a tenant by status, whatever status the query asks for, and by queue, whatever queue it asks
// for. Groups have their number of jobs, so that it takes the same time for any number of them; of a query that compares
// job by job, only the newest maxScanned jobs are examined, and the counts are lower bounds.
func (q *Query) Facets(v *fsm.View, tenant string) *v1.JobFacets {
	f := facets{q: q, v: v, out: &v1.JobFacets{Status: map[string]int32{}, Queue: map[string]int32{}}}
	if j := q.named(v, tenant); j != nil {
		f.addJob(j)
		return f.out
	}
	var groups []work.CountedGroup
	for g := range v.JobGroups(tenant) {
		if !g.Element && (!q.evaluations || g.Evaluation) {
			groups = append(groups, g)
		}
	}
	if q.compared() {
		f.compare(groups)
	} else {
		f.count(groups)
	}
	return f.out
}

type facets struct {
	q   *Query
	v   *fsm.View
	out *v1.JobFacets
}

// add counts n jobs of a queue with a status.
func (f *facets) add(queue string, s v1.JobStatus_Value, wanted bool, n int) {
	if n == 0 {
		return
	}
	if f.q.queue == "" || f.q.queue == queue {
		f.out.Status[s.String()] += int32(n)
	}
	if wanted {
		f.out.Queue[queue] += int32(n)
	}
}

// compare examines jobs one by one.
func (f *facets) compare(groups []work.CountedGroup) {
	examined := 0
	for j := range f.v.JobsOfGroups(groups, true, 0) {
		if examined++; examined > f.q.scan {
			f.out.IsMinimum = true
			return
		}
		f.addJob(j)
	}
}

// addJob counts a job that the query names.
func (f *facets) addJob(j *work.Job) {
	if f.q.names(j) && (!f.q.evaluations || j.Evaluation()) {
		phase, considered := jobview.Phase(j), jobview.Considered(f.v, j)
		f.add(j.Queue, status.Of(j.State, phase, considered), f.q.filter.Match(j.State, phase, considered), 1)
	}
}

// count adds up groups. Those of waiting jobs do not distinguish the ones that no scheduler pass has considered yet: these
// are the newest ones, and few.
func (f *facets) count(groups []work.CountedGroup) {
	waiting := map[string]int{}
	var split []work.CountedGroup
	for _, g := range groups {
		phase := jobview.PhaseShown(g.Phase, g.Evaluation)
		if pending := status.Of(g.State, phase, false); pending != status.Of(g.State, phase, true) {
			waiting[g.Queue] += g.Jobs
			g.Since = ident.FirstJobAfter(f.v.Considered())
			split = append(split, g)
			continue
		}
		f.add(g.Queue, status.Of(g.State, phase, true), f.q.filter.Match(g.State, phase, true), g.Jobs)
	}
	pending, all := f.q.pending(f.v, split)
	f.out.IsMinimum = !all
	for queue, n := range waiting {
		f.add(queue, v1.JobStatus_PENDING, f.q.filter.Match(v1.JobState_QUEUED, 0, false), pending[queue])
		if all { // Otherwise any of the rest may be pending, too.
			f.add(queue, v1.JobStatus_QUEUED, f.q.filter.Match(v1.JobState_QUEUED, 0, true), n-pending[queue])
		}
	}
}
