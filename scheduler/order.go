package scheduler

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
)

// readAhead is the number of jobs of one lane and priority that are read at a time. Orders other than FIFO sort these,
// so in one pass a job passes at most this many older jobs of its lane.
const readAhead = 128

// lane has the waiting jobs of one user with the same needs.
type lane struct {
	key   *work.LaneKey
	class *class
	// head is the first job, and rank its rank. head is nil while the first job is not known; then rank is a bound that
	// comes before it.
	rank rank
	head *work.Job
	// element is the number of the element to offer if the head is an array.
	element uint32
	// strata are the jobs of the lane by priority: aging may put old jobs of a lower priority first.
	strata []stratum
	// few and one are the memory of strata and of their jobs, which is enough for most lanes.
	few [1]stratum
	one [1]ranked
}

// stratum has the jobs of one lane with one priority, in the state the oldest first. The jobs after the oldest are read
// only when they are needed to find the first one.
type stratum struct {
	oldest *work.Job
	// unread: the jobs from the oldest on have not been read, and none of them comes before bound.
	unread bool
	bound  rank
	last   *work.Job // read last
	rest   []ranked
}

type ranked struct {
	job   *work.Job
	rank  rank
	class *class
}

func byRank(a, b ranked) int {
	switch {
	case a.rank.before(b.rank):
		return -1
	case b.rank.before(a.rank):
		return 1
	}
	return 0
}

// before reports whether a job comes before another job of the same user in the state: the higher priority first, then
// the older one.
func before(a, b *work.Job) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.ID.Older(b.ID)
}

// byAge compares two jobs by age, and elements of an array by number.
func byAge(a, b ident.Job) int {
	switch {
	case a.Older(b):
		return -1
	case a == b:
		return 0
	}
	return 1
}

// inOrder compares two jobs of one user as before does.
func inOrder(a, b *work.Job) int {
	switch {
	case before(a, b):
		return -1
	case a.ID == b.ID:
		return 0
	}
	return 1
}

// inFull returns up to n elements of an array that wait for their first placement. For a job that is no array it
// returns the job.
func inFull(j *work.Job, n int) []*work.Job {
	if j.Array == nil {
		return []*work.Job{j}
	}
	var all []*work.Job
	number, ok := j.Array.Waiting.Next(0)
	for ; ok && len(all) < n; number, ok = j.Array.Waiting.Next(number + 1) {
		all = append(all, j.Element(number))
	}
	return all
}

// newLane returns a lane. oldest has its oldest job of each priority.
func newLane(r *ranking, key *work.LaneKey, c *class, oldest []*work.Job) *lane {
	l := &lane{key: key, class: c}
	l.strata = l.few[:0]
	for i, at := range oldest {
		s := stratum{oldest: at, last: at}
		if mine := r.of(at); r.leads(at, mine) {
			if s.rest = []ranked{{at, mine, c}}; i == 0 {
				s.rest = l.one[:1]
				s.rest[0] = ranked{at, mine, c}
			}
		} else {
			s.unread, s.bound = true, r.boundOf(at)
		}
		l.strata = append(l.strata, s)
	}
	l.choose()
	return l
}

// choose makes the first job of all strata the head, if it is known, and its first waiting element if it is an array.
// It returns false if no job is left.
func (l *lane) choose() bool {
	l.head = nil
	any := false
	for i := range l.strata {
		s := &l.strata[i]
		switch {
		case s.unread && (!any || s.bound.before(l.rank)):
			l.head, l.rank, any = nil, s.bound, true
		case len(s.rest) > 0 && (!any || s.rest[0].rank.before(l.rank)):
			l.head, l.rank, any = s.rest[0].job, s.rest[0].rank, true
		}
	}
	if l.head != nil && l.head.Array != nil {
		l.element, _ = l.head.Array.Waiting.Next(0)
	}
	return any
}

// settle reads jobs until the head is known.
func (l *lane) settle(v View, r *ranking) {
	for l.head == nil {
		for i := range l.strata {
			if s := &l.strata[i]; s.unread && s.bound == l.rank {
				l.readFrom(v, r, s)
			}
		}
		l.choose()
	}
}

// readAll reads the first jobs of all strata.
func (l *lane) readAll(v View, r *ranking) {
	for i := range l.strata {
		s := &l.strata[i]
		if s.unread || s.last == s.oldest && r.policy.Order != policy.OrderFIFO {
			l.readFrom(v, r, s)
		}
	}
}

// readFrom reads the first jobs of a stratum, from the oldest on.
func (l *lane) readFrom(v View, r *ranking, s *stratum) {
	s.unread = false
	l.read(v, r, s, &work.Job{Priority: s.oldest.Priority}, readAhead)
}

// offered returns the id and the attempt for a placement of the head, or of its next element if it is an array.
func (l *lane) offered() (id ident.Job, attempt uint32) {
	if l.head.Array != nil {
		return l.head.ID.At(l.element), l.head.Array.Base + 1
	}
	return l.head.ID, l.head.Attempt + 1
}

// nextElement moves to the next element of the head. It returns false if there is none, or if the head is no array.
func (l *lane) nextElement() (ok bool) {
	if l.head.Array == nil {
		return false
	}
	l.element, ok = l.head.Array.Waiting.Next(l.element + 1)
	return ok
}

// read gets the next jobs of a stratum.
func (l *lane) read(v View, r *ranking, s *stratum, after *work.Job, most int) {
	if r.buf == nil {
		r.buf = make([]*work.Job, readAhead)
	}
	found := v.LaneJobsAfter(*l.key, after, r.buf[:most])
	s.rest = slices.Grow(s.rest[:0], len(found))
	for _, j := range found {
		if j.Priority != after.Priority && r.stratified() {
			break
		}
		s.rest = append(s.rest, ranked{j, r.of(j), l.class})
		s.last = j
	}
	if r.policy.Order != policy.OrderFIFO {
		slices.SortFunc(s.rest, byRank)
	}
}

// next moves to the next job of the lane, or to the next element of an array. It returns false if there is none.
// Elements take time only when they are offered, however many wait.
func (l *lane) next(v View, r *ranking) bool {
	return l.nextElement() || l.nextJob(v, r)
}

// nextJob is like next, but skips the remaining elements of an array.
func (l *lane) nextJob(v View, r *ranking) bool {
	for i := range l.strata {
		s := &l.strata[i]
		if len(s.rest) == 0 || s.rest[0].job != l.head {
			continue
		}
		if s.rest = s.rest[1:]; len(s.rest) > 0 {
			break
		}
		most := readAhead
		if s.last == s.oldest && r.policy.Order != policy.OrderFIFO {
			most-- // The oldest job was the first of readAhead.
		}
		l.read(v, r, s, s.last, most)
		break
	}
	return l.choose()
}
