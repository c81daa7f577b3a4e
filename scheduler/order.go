package scheduler

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
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
	// element is the number of the element to offer, when the head is an array.
	element uint32
	fit     *fit
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
	return a.head.ID.Older(b.head.ID)
}

// lead makes a job the head of its class: of an array, the first element that waits.
func (c *class) lead(j *work.Job) {
	if c.head, c.element = j, 0; j.Array != nil {
		c.element, _ = j.Array.Waiting.Next(0)
	}
}

// offered is what a placement of the head names: the job and the number of its next attempt.
func (c *class) offered() (id ident.Job, attempt uint32) {
	if c.head.Array != nil {
		return c.head.ID.At(c.element), c.head.Array.Base + 1
	}
	return c.head.ID, c.head.Attempt + 1
}

// nextElement moves on to the next element of an array; false: there is none, or the head is no array.
func (c *class) nextElement() (ok bool) {
	if c.head.Array == nil {
		return false
	}
	c.element, ok = c.head.Array.Waiting.Next(c.element + 1)
	return ok
}

func newLine(v View) *line {
	l := &line{view: v}
	for key := range v.Classes() {
		c := &class{key: key}
		for job := range v.ClassJobs(key) {
			c.lead(job)
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

// first returns the job to offer now, or nil at the end.
func (l *line) first() (*class, *work.Job) {
	if len(l.heap) == 0 {
		return nil, nil
	}
	return l.heap[0], l.heap[0].head
}

// next moves on to the following job of the first class. The elements of an array are as many jobs as wait, at the cost of
// those that are placed.
func (l *line) next() {
	c := l.heap[0]
	if c.nextElement() {
		return
	}
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
	c.lead(c.rest[0])
	c.rest = c.rest[1:]
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
