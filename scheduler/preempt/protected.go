package preempt

import (
	"slices"
	"sort"

	"github.com/mindcoordinator/mind/fsm/work"
)

// Protected returns the time, in Unix nanoseconds, from which on ForPriority makes room for a waiting job, because jobs
// that it would preempt are protected no longer, and how many it preempts then. It returns false if none are in its way.
func Protected(v View, j *work.Job, class work.ClassKey, now int64) (until int64, victims int, ok bool) {
	policy := v.Policy()
	var ends []int64
	for x := range v.ActiveJobs() {
		if end := x.ProtectedUntil(policy.Preemption.ProtectFromPriority); x.Preemptible && x.Priority < j.Priority && end > now {
			ends = append(ends, end)
		}
	}
	slices.Sort(ends)
	at := func(t int64) (victims int, ok bool) {
		for _, p := range ForPriority(v, []work.ClassKey{class}, t) {
			if p.Job == j.ID || j.Array != nil && p.Job.Submitted() == j.ID {
				return len(p.Victims), true
			}
		}
		return 0, false
	}
	i := sort.Search(len(ends), func(i int) bool { _, ok := at(ends[i]); return ok })
	if i == len(ends) {
		return 0, 0, false
	}
	if _, now := at(now); now {
		return 0, 0, false
	}
	victims, ok = at(ends[i])
	return ends[i], victims, ok
}
