package scheduler

import (
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/place"
)

// readAhead is how many jobs of one class and priority are read at a time. Orders other than FIFO sort them, so a shorter
// job passes this many older ones of its class at most in one pass.
const readAhead = 128

// line is all waiting jobs in the order in which they are offered: a merge of the classes by their first jobs.
type line struct {
	view    View
	ranking ranking
	heap    []*class // a binary heap: the class to offer next is heap[0]
	all     []*class
	// placed are the jobs that were offered and placed, for the decision to preempt; nil: none is due.
	placed map[ident.Job]*work.Job
}

// class is a group of waiting jobs with the same needs.
type class struct {
	key  work.ClassKey
	head *work.Job
	rank rank
	fit  *place.Fit
	// limits are those of its tenant and its queue, once they were read.
	limits limits
	// strata are its jobs by priority: aging may put old jobs of a lower one first.
	strata []*stratum
}

// stratum is the jobs of one class with one priority, oldest first in the state.
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

// inOrder compares two jobs of a class by their order in the state.
func inOrder(a, b *work.Job) int {
	switch {
	case a.Priority != b.Priority:
		return int(b.Priority) - int(a.Priority)
	case a.ID < b.ID:
		return -1
	case a.ID > b.ID:
		return 1
	}
	return 0
}

func newLine(v View, r ranking) *line {
	l := &line{view: v, ranking: r}
	for key := range v.Classes() {
		c := &class{key: key}
		l.open(c)
		if c.head != nil {
			l.all = append(l.all, c)
		}
	}
	l.heap = append(l.heap, l.all...)
	for i := len(l.heap)/2 - 1; i >= 0; i-- {
		l.sink(i)
	}
	return l
}

// open finds the priorities of a class, and its first job.
func (l *line) open(c *class) {
	var at *work.Job
	for job := range l.view.ClassJobs(c.key) {
		at = job
		break
	}
	buf := make([]*work.Job, 1)
	for at != nil {
		s := &stratum{rest: []ranked{{at, l.ranking.of(at), c}}, last: at}
		if l.ranking.policy.Order != work.OrderFIFO {
			s.rest, s.last = nil, nil
			l.read(c, s, &work.Job{Priority: at.Priority})
		}
		c.strata = append(c.strata, s)
		if l.ranking.policy.AgingStep == 0 && l.ranking.policy.Order == work.OrderFIFO || at.Priority == 0 {
			break
		}
		below := l.view.ClassJobsAfter(c.key, &work.Job{Priority: at.Priority, ID: ^ident.Job(0) - 1}, buf)
		if at = nil; len(below) > 0 {
			at = below[0]
		}
	}
	c.choose()
}

// choose makes the first job of all strata the head.
func (c *class) choose() {
	c.head = nil
	for _, s := range c.strata {
		if len(s.rest) > 0 && (c.head == nil || s.rest[0].rank.before(c.rank)) {
			c.head, c.rank = s.rest[0].job, s.rest[0].rank
		}
	}
}

// read gets the next jobs of a stratum.
func (l *line) read(c *class, s *stratum, after *work.Job) {
	if s.buf == nil {
		s.buf = make([]*work.Job, readAhead)
	}
	s.rest = s.rest[:0]
	for _, j := range l.view.ClassJobsAfter(c.key, after, s.buf) {
		if j.Priority != after.Priority && l.bounded() {
			break
		}
		s.rest = append(s.rest, ranked{j, l.ranking.of(j), c})
		s.last = j
	}
	if l.ranking.policy.Order != work.OrderFIFO {
		slices.SortFunc(s.rest, func(a, b ranked) int {
			if a.rank.before(b.rank) {
				return -1
			}
			return 1
		})
	}
}

// bounded says that a stratum is one priority. Otherwise the state's order is that of the line, and one stratum is all.
func (l *line) bounded() bool {
	return l.ranking.policy.AgingStep > 0 || l.ranking.policy.Order != work.OrderFIFO
}

// first returns the job to offer now, or nil at the end.
func (l *line) first() (*class, *work.Job) {
	if len(l.heap) == 0 {
		return nil, nil
	}
	return l.heap[0], l.heap[0].head
}

// next moves on to the following job of the first class.
func (l *line) next() {
	c := l.heap[0]
	for _, s := range c.strata {
		if len(s.rest) == 0 || s.rest[0].job != c.head {
			continue
		}
		if s.rest = s.rest[1:]; len(s.rest) == 0 {
			l.read(c, s, s.last)
		}
		break
	}
	if c.choose(); c.head == nil {
		l.drop()
		return
	}
	l.sink(0)
}

// drop ends the first class for this pass.
func (l *line) drop() {
	last := len(l.heap) - 1
	l.heap[0] = l.heap[last]
	l.heap = l.heap[:last]
	l.sink(0)
}

func (l *line) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(l.heap); child++ {
			if l.heap[child].rank.before(l.heap[least].rank) {
				least = child
			}
		}
		if least == i {
			return
		}
		l.heap[i], l.heap[least] = l.heap[least], l.heap[i]
		i = least
	}
}

// left are jobs that the pass has not placed, in order, of those that it has read.
func (l *line) left(most int) []ranked {
	var all []ranked
	for _, c := range l.all {
		for _, s := range c.strata {
			all = append(all, s.rest...)
		}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		if a.rank.before(b.rank) {
			return -1
		}
		return 1
	})
	return all[:min(len(all), most)]
}

// shapes are what the waiting jobs need.
func (l *line) shapes() iter.Seq[work.Shape] {
	return func(yield func(work.Shape) bool) {
		for _, c := range l.all {
			if !yield(c.key.Shape) {
				return
			}
		}
	}
}
