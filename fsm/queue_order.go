package fsm

import "iter"

// orderChunk is how many jobs of a class are fetched at a time while classes are merged.
const orderChunk = 64

// classCursor walks one class.
type classCursor struct {
	key  ClassKey
	jobs []*Job
	next int
	buf  []*Job
	done bool
}

func (c *classCursor) head(v *View) *Job {
	if c.next == len(c.jobs) {
		if c.done {
			return nil
		}
		var last *Job
		if len(c.jobs) > 0 {
			last = c.jobs[len(c.jobs)-1]
		}
		c.jobs, c.next = v.ClassJobsAfter(c.key, last, c.buf), 0
		c.done = len(c.jobs) < len(c.buf)
		if len(c.jobs) == 0 {
			return nil
		}
	}
	return c.jobs[c.next]
}

func before(a, b *Job) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.ID < b.ID
}

// QueueJobs iterates the jobs that may be placed from a queue, in the order in which they are considered: priority
// first, then age. Held jobs are not in it.
func (v *View) QueueJobs(queue string) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		var cursors []*classCursor
		for key := range v.classesOf(queue) {
			c := &classCursor{key: key, buf: make([]*Job, orderChunk)}
			if c.head(v) != nil {
				cursors = append(cursors, c)
			}
		}
		for len(cursors) > 0 {
			best := 0
			for i := 1; i < len(cursors); i++ {
				if before(cursors[i].head(v), cursors[best].head(v)) {
					best = i
				}
			}
			c := cursors[best]
			if !yield(c.head(v)) {
				return
			}
			c.next++
			if c.head(v) == nil {
				cursors = append(cursors[:best], cursors[best+1:]...)
			}
		}
	}
}

// Ahead is how many jobs of the same queue are considered before this one. It walks over them.
func (v *View) Ahead(j *Job) int {
	n := 0
	for key := range v.classesOf(j.Queue) {
		c, ok := v.jobs.classes.tree.Get(classNumber{key: key})
		if !ok {
			continue
		}
		end := waitingJob{place: waitingPlace(c.number, j.Priority), id: j.ID}
		v.jobs.waiting.tree.AscendRange(waitingJob{place: uint64(c.number) << 8}, end, func(waitingJob) bool {
			n++
			return true
		})
	}
	return n
}

// classesOf iterates the classes of one queue.
func (v *View) classesOf(queue string) iter.Seq[ClassKey] {
	return func(yield func(ClassKey) bool) {
		v.jobs.classes.tree.AscendGreaterOrEqual(classNumber{key: ClassKey{Queue: queue}}, func(c classNumber) bool {
			return c.key.Queue == queue && yield(c.key)
		})
	}
}
