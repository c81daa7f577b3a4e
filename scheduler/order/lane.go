package order

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
)

// readAhead is the number of jobs of one lane and priority that are read at a time. Orders other than FIFO sort these,
// so in one pass a job passes at most this many older jobs of its lane.
const readAhead = 128

// Lane has the waiting jobs of one user with the same needs.
type Lane struct {
	key   *work.LaneKey
	Class *Class
	// Head is the first job, and Rank its rank. Head is nil while the first job is not known; then Rank is a bound that
	// comes before it. Tree.First returns only lanes whose first job is known.
	Rank Rank
	Head *work.Job
	// element is the number of the element to offer if the head is an array, and it is known.
	element uint32
	known   bool
	// user: the lane stands for those of a user. It has no class and no jobs.
	user *keptUser
	// first is the oldest job of the highest priority.
	first ident.Job
	// strata are the jobs of the lane by priority: aging may put old jobs of a lower priority first.
	strata []stratum
	// few and one are the memory of strata and of their jobs, which is enough for most lanes.
	few [1]stratum
	one [1]Ranked
}

// stratum has the jobs of one lane with one priority, in the state the oldest first. The jobs after the oldest are read
// only when they are needed to find the first one.
type stratum struct {
	oldest *work.Job
	// unread: the jobs from the oldest on have not been read, and none of them comes before bound.
	unread bool
	bound  Rank
	last   *work.Job // read last
	rest   []Ranked
}

// Ranked is a waiting job with its rank.
type Ranked struct {
	Job  *work.Job
	Rank Rank
}

// ByRank compares two waiting jobs by rank.
func ByRank(a, b Ranked) int {
	switch {
	case a.Rank.before(b.Rank):
		return -1
	case b.Rank.before(a.Rank):
		return 1
	}
	return 0
}

// Before reports whether a job comes before another job of the same user in the state: the higher priority first, then
// the older one.
func Before(a, b *work.Job) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.ID.Older(b.ID)
}

// ByAge compares two jobs by age, and elements of an array by number.
func ByAge(a, b ident.Job) int {
	switch {
	case a.Older(b):
		return -1
	case a == b:
		return 0
	}
	return 1
}

// InOrder compares two jobs of one user as Before does.
func InOrder(a, b *work.Job) int {
	switch {
	case Before(a, b):
		return -1
	case a.ID == b.ID:
		return 0
	}
	return 1
}

// InFull returns up to n elements of an array that wait for their first placement. For a job that is no array it
// returns the job.
func InFull(j *work.Job, n int) []*work.Job {
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

// begin sets a lane to its first job. oldest has its oldest job of each priority.
func (l *Lane) begin(r *Ranking, key *work.LaneKey, c *Class, oldest []oldest) {
	*l = Lane{key: key, Class: c, first: oldest[0].id}
	l.strata = l.few[:0]
	for i := range oldest {
		at := oldest[i].Job
		s := stratum{oldest: at, last: at}
		if mine, bound := r.ofOldest(&oldest[i]); r.leads(mine, bound) {
			if s.rest = []Ranked{{at, mine}}; i == 0 {
				s.rest = l.one[:1]
				s.rest[0] = Ranked{at, mine}
			}
		} else {
			s.unread, s.bound = true, bound
		}
		l.strata = append(l.strata, s)
	}
	l.choose()
}

// choose makes the first job of all strata the head, if it is known. It returns false if no job is left.
func (l *Lane) choose() bool {
	l.Head, l.known = nil, false
	any := false
	for i := range l.strata {
		s := &l.strata[i]
		switch {
		case s.unread && (!any || s.bound.before(l.Rank)):
			l.Head, l.Rank, any = nil, s.bound, true
		case len(s.rest) > 0 && (!any || s.rest[0].Rank.before(l.Rank)):
			l.Head, l.Rank, any = s.rest[0].Job, s.rest[0].Rank, true
		}
	}
	return any
}

// begun makes the first waiting element of a head that is an array the one to offer, unless a later one is.
func (l *Lane) begun() {
	if !l.known {
		l.element, _ = l.Head.Array.Waiting.Next(0)
		l.known = true
	}
}

// settle reads jobs until the head is known.
func (l *Lane) settle(v View, r *Ranking) {
	for l.Head == nil {
		for i := range l.strata {
			if s := &l.strata[i]; s.unread && s.bound == l.Rank {
				l.readFrom(v, r, s)
			}
		}
		l.choose()
	}
}

// readAll reads the first jobs of all strata.
func (l *Lane) readAll(v View, r *Ranking) {
	for i := range l.strata {
		s := &l.strata[i]
		if s.unread || s.last == s.oldest && r.Policy.Order != policy.OrderFIFO {
			l.readFrom(v, r, s)
		}
	}
}

// readFrom reads the first jobs of a stratum, from the oldest on.
func (l *Lane) readFrom(v View, r *Ranking, s *stratum) {
	s.unread = false
	l.read(v, r, s, &work.Job{Priority: s.oldest.Priority}, readAhead)
}

// Offered returns the id and the attempt for a placement of the head, or of its next element if it is an array.
func (l *Lane) Offered() (id ident.Job, attempt uint32) {
	if l.Head.Array != nil {
		l.begun()
		return l.Head.ID.At(l.element), l.Head.Array.Base + 1
	}
	return l.Head.ID, l.Head.Attempt + 1
}

// nextElement moves to the next element of the head. It returns false if there is none, or if the head is no array.
func (l *Lane) nextElement() (ok bool) {
	if l.Head.Array == nil {
		return false
	}
	l.begun()
	l.element, ok = l.Head.Array.Waiting.Next(l.element + 1)
	return ok
}

// read gets the next jobs of a stratum.
func (l *Lane) read(v View, r *Ranking, s *stratum, after *work.Job, most int) {
	if r.buf == nil {
		r.buf = make([]*work.Job, readAhead)
	}
	found := v.LaneJobsAfter(*l.key, after, r.buf[:most])
	s.rest = slices.Grow(s.rest[:0], len(found))
	for _, j := range found {
		if j.Priority != after.Priority && r.stratified() {
			break
		}
		s.rest = append(s.rest, Ranked{j, r.Of(j)})
		s.last = j
	}
	if r.Policy.Order != policy.OrderFIFO {
		slices.SortFunc(s.rest, ByRank)
	}
}

// next moves to the next job of the lane, or to the next element of an array. It returns false if there is none.
// Elements take time only when they are offered, however many wait.
func (l *Lane) next(v View, r *Ranking) bool {
	return l.nextElement() || l.nextJob(v, r)
}

// nextJob is like next, but skips the remaining elements of an array.
func (l *Lane) nextJob(v View, r *Ranking) bool {
	for i := range l.strata {
		s := &l.strata[i]
		if len(s.rest) == 0 || s.rest[0].Job != l.Head {
			continue
		}
		if s.rest = s.rest[1:]; len(s.rest) > 0 {
			break
		}
		most := readAhead
		if s.last == s.oldest && r.Policy.Order != policy.OrderFIFO {
			most-- // The oldest job was the first of readAhead.
		}
		l.read(v, r, s, s.last, most)
		break
	}
	return l.choose()
}
