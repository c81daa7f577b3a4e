package scheduler

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// readAhead is how many jobs of one lane and priority are read at a time. Orders other than FIFO sort them, so a shorter job
// passes this many older ones of its lane at most in one pass.
const readAhead = 128

// lane is the waiting jobs of one user that have the same needs.
type lane struct {
	key   *work.LaneKey
	class *class
	// head is the first job, and rank its rank. It is nil when it is not known which one is first: rank comes before it then.
	rank rank
	head *work.Job
	// element is the number of the element to offer, when the head is an array.
	element uint32
	// strata are its jobs by priority: aging may put old jobs of a lower one first.
	strata []stratum
	// few and one are room for them, in most lanes.
	few [1]stratum
	one [1]ranked
}

// stratum is the jobs of one lane with one priority, oldest first in the state. Those that wait behind the oldest are read
// only when they are needed to know which one is first.
type stratum struct {
	oldest *work.Job
	// unread: the jobs from the oldest on are still to be read, and bound is what none of them comes before.
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

// before is the order in the state of two jobs of one user: higher priority first, then older.
func before(a, b *work.Job) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.ID.Older(b.ID)
}

// byAge compares two jobs by their age, elements of an array by number.
func byAge(a, b ident.Job) int {
	switch {
	case a.Older(b):
		return -1
	case a == b:
		return 0
	}
	return 1
}

// inOrder compares two jobs of one user by their order in the state.
func inOrder(a, b *work.Job) int {
	switch {
	case before(a, b):
		return -1
	case a.ID == b.ID:
		return 0
	}
	return 1
}

// inFull lists the elements of an array that wait for their first placement, n at most; any other job is itself.
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

// newLane makes a lane of which these are the oldest jobs, by priority.
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

// choose makes the first job of all strata the head, of an array its first element that waits, if it is known; false: there is
// none left.
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

// settle reads what decides about the head.
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
		if s.unread || s.last == s.oldest && r.policy.Order != work.OrderFIFO {
			l.readFrom(v, r, s)
		}
	}
}

// readFrom reads the first jobs of a stratum, from the oldest on.
func (l *lane) readFrom(v View, r *ranking, s *stratum) {
	s.unread = false
	l.read(v, r, s, &work.Job{Priority: s.oldest.Priority}, readAhead)
}

// offered is what a placement of the head names: the job, of an array an element, and the number of its next attempt.
func (l *lane) offered() (id ident.Job, attempt uint32) {
	if l.head.Array != nil {
		return l.head.ID.At(l.element), l.head.Array.Base + 1
	}
	return l.head.ID, l.head.Attempt + 1
}

// nextElement moves on to the next element of an array; false: there is none, or the head is no array.
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
	if r.policy.Order != work.OrderFIFO {
		slices.SortFunc(s.rest, byRank)
	}
}

// next moves on to the following job of the lane, which is known or not; false: there is none. The elements of an array are as
// many jobs as wait, at the cost of those that are placed.
func (l *lane) next(v View, r *ranking) bool {
	if l.nextElement() {
		return true
	}
	for i := range l.strata {
		s := &l.strata[i]
		if len(s.rest) == 0 || s.rest[0].job != l.head {
			continue
		}
		if s.rest = s.rest[1:]; len(s.rest) > 0 {
			break
		}
		most := readAhead
		if s.last == s.oldest && r.policy.Order != work.OrderFIFO {
			most-- // The oldest is one of the first.
		}
		l.read(v, r, s, s.last, most)
		break
	}
	return l.choose()
}
