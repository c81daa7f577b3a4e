package joblist

import (
	"iter"
	"math"
	"slices"

	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// maxScanned bounds the jobs that one page examines. Tenant, queue, status, priority and the label of evaluations are
// indexed: such a list examines the jobs of its page only, however many there are. Other labels are compared job by
// job: if few of many jobs match, a page ends early, and the next page continues there.
const maxScanned = 5000

// Page is a page of a list.
type Page struct {
	Jobs []*work.Job
	// Total is the number of jobs that match in all; a lower bound unless Exact.
	Total int
	Exact bool
	Next  string // page token; empty: this was the last page
}

// Count returns Total in the type of answers.
func (l *Page) Count() int32 { return int32(min(l.Total, math.MaxInt32)) }

// Find finds a page.
func (q *Query) Find(v *fsm.View, tenant string) Page {
	groups := q.groups(v, tenant)
	var found Page
	compared := len(q.labels) > 0 || q.Also != nil // job by job
	if compared {
		found.Total, found.Exact = q.after.found, true
	} else {
		found.Total, found.Exact = q.total(v, groups)
	}
	scanned, end := 0, q.after // of the page
	for j := range q.walk(v, groups) {
		if scanned++; scanned > q.scan {
			found.Exact = found.Exact && !compared
			found.Next = q.token(end)
			return found
		}
		full := len(found.Jobs) == q.size
		if !full {
			end.id, end.priority = j.ID, j.Priority
		}
		if !q.matches(v, j) {
			continue
		}
		if compared {
			found.Total++
		}
		if !full {
			found.Jobs = append(found.Jobs, j)
			end.found++
			continue
		}
		found.Next = q.token(end)
		if !compared {
			return found
		}
	}
	return found
}

// groups returns the groups in which a job may match.
func (q *Query) groups(v *fsm.View, tenant string) []work.CountedGroup {
	var groups []work.CountedGroup
	for g := range v.JobGroups(tenant) {
		if g.Element || q.queue != "" && g.Queue != q.queue || q.evaluations && !g.Evaluation {
			continue
		}
		pending, others := q.wants(&g)
		if pending && !others {
			g.Since = ident.FirstJobAfter(v.Considered())
		}
		if pending || others {
			groups = append(groups, g)
		}
	}
	return groups
}

// wants reports whether the query wants the jobs of a group that no scheduler pass has considered yet, and whether it
// wants the others.
func (q *Query) wants(g *work.CountedGroup) (pending, others bool) {
	phase := jobview.PhaseShown(g.Phase, g.Evaluation)
	return q.filter.Match(g.State, phase, false), q.filter.Match(g.State, phase, true)
}

// total counts the jobs that match. Groups have their number of jobs, but do not distinguish those that no scheduler
// pass has considered yet: these are the newest ones, and few.
func (q *Query) total(v *fsm.View, groups []work.CountedGroup) (n int, exact bool) {
	var split []work.CountedGroup
	waiting, wantsPending := 0, false // of the groups of which only some jobs match
	for _, g := range groups {
		pending, others := q.wants(&g)
		if pending == others {
			n += g.Jobs
			continue
		}
		waiting, wantsPending = waiting+g.Jobs, pending
		g.Since = ident.FirstJobAfter(v.Considered())
		split = append(split, g)
	}
	looked, pending := 0, 0
	for j := range v.JobsOfGroups(split, true, 0) {
		if looked++; looked > q.scan {
			break
		}
		if !jobview.Considered(v, j) {
			pending++
		}
	}
	switch exact = looked <= q.scan; {
	case wantsPending:
		return n + pending, exact
	case exact:
		return n + waiting - pending, true
	default:
		return n, false
	}
}

// walk iterates the jobs of groups in the order of the list, from the end of the previous page on.
func (q *Query) walk(v *fsm.View, groups []work.CountedGroup) iter.Seq[*work.Job] {
	switch q.order {
	case byAgeDesc:
		if q.after.id == 0 {
			return v.JobsOfGroups(groups, true, 0)
		}
		return v.JobsOfGroups(groups, true, q.after.id-1)
	case byAge:
		return v.JobsOfGroups(groups, false, q.after.id+1)
	}
	return byPriorityThenAge(v, groups, q.after)
}

// ByPriority iterates the jobs of groups in the order of the scheduler: by priority, then by age.
func ByPriority(v *fsm.View, groups []work.CountedGroup) iter.Seq[*work.Job] {
	return byPriorityThenAge(v, groups, pageMark{})
}

// byPriorityThenAge iterates the jobs of groups by priority, then by age, beginning after a job.
func byPriorityThenAge(v *fsm.View, groups []work.CountedGroup, after pageMark) iter.Seq[*work.Job] {
	slices.SortStableFunc(groups, func(a, b work.CountedGroup) int { return int(b.Priority) - int(a.Priority) })
	return func(yield func(*work.Job) bool) {
		for len(groups) > 0 {
			priority, n := groups[0].Priority, 1
			for n < len(groups) && groups[n].Priority == priority {
				n++
			}
			same := groups[:n]
			groups = groups[n:]
			from := ident.Job(1)
			switch {
			case after.id == 0 || priority < after.priority:
			case priority > after.priority:
				continue
			default:
				from = after.id + 1
			}
			for j := range v.JobsOfGroups(same, false, from) {
				if !yield(j) {
					return
				}
			}
		}
	}
}

// matches reports whether a job of the groups is in the list.
func (q *Query) matches(v *fsm.View, j *work.Job) bool {
	for _, l := range q.labels {
		if value, ok := j.Labels[l[0]]; !ok || value != l[1] {
			return false
		}
	}
	return q.filter.Match(j.State, jobview.Phase(j), jobview.Considered(v, j)) && (q.Also == nil || q.Also(j))
}
