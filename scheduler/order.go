package scheduler

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/place"
)

// readAhead is how many jobs of a class are read at a time.
const readAhead = 128

// line is all waiting jobs in the order in which they are offered: a merge of the classes by their first jobs.
type line struct {
	view View
	heap []*class // a binary heap: the class to offer next is heap[0]
	all  []*class
}

// class is a group of waiting jobs with the same needs.
type class struct {
	key  work.ClassKey
	head *work.Job
	fit  *place.Fit
	// limits are those of its tenant and its queue, once they were read.
	limits limits
	// rest are the next jobs, read ahead a few at a time once the head was placed.
	rest []*work.Job
	buf  []*work.Job
}

// before is the policy: which of two classes is offered first. Fair share belongs here: it would compare the usage of the
// queues and tenants of the two before their jobs.
func before(a, b *class) bool {
	if a.head.Priority != b.head.Priority {
		return a.head.Priority > b.head.Priority
	}
	return a.head.ID < b.head.ID
}

func newLine(v View) *line {
	l := &line{view: v}
	for key := range v.Classes() {
		c := &class{key: key}
		for job := range v.ClassJobs(key) {
			c.head = job
			break
		}
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

// shapes are those of all classes.
func (l *line) shapes() iter.Seq[work.Shape] {
	return func(yield func(work.Shape) bool) {
		for _, c := range l.all {
			if !yield(c.key.Shape) {
				return
			}
		}
	}
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
	if len(c.rest) == 0 {
		if c.buf == nil {
			c.buf = make([]*work.Job, readAhead)
		}
		c.rest = l.view.ClassJobsAfter(c.key, c.head, c.buf)
	}
	if len(c.rest) == 0 {
		l.drop()
		return
	}
	c.head, c.rest = c.rest[0], c.rest[1:]
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
			if before(l.heap[child], l.heap[least]) {
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
