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
	key   work.LaneKey
	class *class
	head  *work.Job
	// element is the number of the element to offer, when the head is an array.
	element uint32
	rank    rank
	// strata are its jobs by priority: aging may put old jobs of a lower one first.
	strata []*stratum
}

// stratum is the jobs of one lane with one priority, oldest first in the state.
type stratum struct {
	last *work.Job // read last
	rest []ranked
	buf  []*work.Job
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

// openLane finds the priorities of a lane, and its first job; nil: it has none.
func openLane(v View, r *ranking, key work.LaneKey, c *class) *lane {
	l := &lane{key: key, class: c}
	var at *work.Job
	for job := range v.LaneJobs(key) {
		at = job
		break
	}
	var buf [1]*work.Job
	for at != nil {
		s := &stratum{rest: []ranked{{at, r.of(at), c}}, last: at}
		if r.policy.Order != work.OrderFIFO {
			s.rest, s.last = nil, nil
			l.read(v, r, s, &work.Job{Priority: at.Priority})
		}
		l.strata = append(l.strata, s)
		if !r.stratified() || at.Priority == 0 {
			break
		}
		below := v.LaneJobsAfter(key, &work.Job{Priority: at.Priority, ID: ^ident.Job(0) - 1}, buf[:])
		if at = nil; len(below) > 0 {
			at = below[0]
		}
	}
	if !l.choose() {
		return nil
	}
	return l
}

// choose makes the first job of all strata the head, of an array its first element that waits; false: there is none left.
func (l *lane) choose() bool {
	l.head = nil
	for _, s := range l.strata {
		if len(s.rest) > 0 && (l.head == nil || s.rest[0].rank.before(l.rank)) {
			l.head, l.rank = s.rest[0].job, s.rest[0].rank
		}
	}
	if l.head != nil && l.head.Array != nil {
		l.element, _ = l.head.Array.Waiting.Next(0)
	}
	return l.head != nil
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
func (l *lane) read(v View, r *ranking, s *stratum, after *work.Job) {
	if s.buf == nil {
		s.buf = make([]*work.Job, readAhead)
	}
	s.rest = s.rest[:0]
	for _, j := range v.LaneJobsAfter(l.key, after, s.buf) {
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

// next moves on to the following job of the lane; false: there is none. The elements of an array are as many jobs as wait,
// at the cost of those that are placed.
func (l *lane) next(v View, r *ranking) bool {
	if l.nextElement() {
		return true
	}
	for _, s := range l.strata {
		if len(s.rest) == 0 || s.rest[0].job != l.head {
			continue
		}
		if s.rest = s.rest[1:]; len(s.rest) == 0 {
			l.read(v, r, s, s.last)
		}
		break
	}
	return l.choose()
}
