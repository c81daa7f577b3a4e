package joblist

import (
	"iter"
	"math"
	"slices"
	"strings"

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

// Cut ends the page after its first n jobs. The next page continues there.
func (q *Query) Cut(p *Page, n int) {
	last := p.Jobs[n-1]
	end := pageMark{id: last.ID, priority: last.Priority, found: q.after.found + n}
	if q.sort != nil {
		end.key = q.sort.key(last)
	}
	p.Jobs, p.Next = p.Jobs[:n], q.token(end)
}

// compared reports whether the query compares something job by job.
func (q *Query) compared() bool {
	return len(q.labels) > 0 || q.Also != nil || q.search != "" || q.user != ""
}

// Find finds a page. It fails if too many jobs would have to be sorted.
func (q *Query) Find(v *fsm.View, tenant string) (Page, error) {
	if j := q.named(v, tenant); j != nil {
		return q.only(v, j), nil
	}
	groups := q.groups(v, tenant)
	if q.sort != nil {
		return q.findSorted(v, groups)
	}
	return q.findIndexed(v, groups), nil
}

// named returns the job of the tenant whose whole id is searched for; nil: there is none.
func (q *Query) named(v *fsm.View, tenant string) *work.Job {
	if j, ok := v.Job(q.one); ok && q.one != 0 && j.Tenant == tenant {
		return j
	}
	return nil
}

// only returns the page of a list that has one job at most.
func (q *Query) only(v *fsm.View, j *work.Job) Page {
	found := Page{Exact: true}
	if q.queue != "" && j.Queue != q.queue || q.evaluations && !j.Evaluation() || !q.matches(v, j) {
		return found
	}
	found.Total = 1
	if q.after.id == 0 {
		found.Jobs = []*work.Job{j}
	}
	return found
}

// findIndexed finds a page of an order that an index has.
func (q *Query) findIndexed(v *fsm.View, groups []work.CountedGroup) Page {
	var found Page
	compared := q.compared()
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
	byQueue, exact := q.pending(v, split)
	pending := 0
	for _, n := range byQueue {
		pending += n
	}
	switch {
	case wantsPending:
		return n + pending, exact
	case exact:
		return n + waiting - pending, true
	default:
		return n, false
	}
}

// pending counts, by queue, the jobs of groups that no scheduler pass has considered yet: the newest ones, from Since of the
// groups on. all is false when there are too many to examine.
func (q *Query) pending(v *fsm.View, groups []work.CountedGroup) (byQueue map[string]int, all bool) {
	byQueue = map[string]int{}
	examined := 0
	for j := range v.JobsOfGroups(groups, true, 0) {
		if examined++; examined > q.scan {
			return byQueue, false
		}
		if !jobview.Considered(v, j) {
			byQueue[j.Queue]++
		}
	}
	return byQueue, true
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
	return q.filter.Match(j.State, jobview.Phase(j), jobview.Considered(v, j)) && q.names(j)
}

// names reports whether a job has the labels, the user and the name that the query asks for.
func (q *Query) names(j *work.Job) bool {
	for _, l := range q.labels {
		if value, ok := j.Labels[l[0]]; !ok || value != l[1] {
			return false
		}
	}
	return (q.user == "" || j.User == q.user) && q.searched(j) && (q.Also == nil || q.Also(j))
}

func (q *Query) searched(j *work.Job) bool {
	return q.search == "" || strings.Contains(strings.ToLower(j.Name), q.search) || strings.HasPrefix(j.ID.String(), q.search)
}
