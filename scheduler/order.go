package scheduler

import (
	"github.com/mindcoordinator/mind/fsm/work"
)

// readAhead is how many jobs of a lane are read at a time.
const readAhead = 128

// lane is the waiting jobs of one user that have the same needs.
type lane struct {
	key   work.LaneKey
	class *class
	head  *work.Job
	// rest are the next jobs, read ahead a few at a time once the head was placed.
	rest []*work.Job
	buf  []*work.Job
}

// urgency is what comes before fair share: the priority of a job.
func urgency(j *work.Job) int { return int(j.Priority) }

// before is the order among the jobs of one user: which of two is offered first.
func before(a, b *work.Job) bool {
	if x, y := urgency(a), urgency(b); x != y {
		return x > y
	}
	return a.ID < b.ID
}

// openLane finds the first job of a lane; nil: it has none.
func openLane(v View, key work.LaneKey, c *class) *lane {
	for job := range v.LaneJobs(key) {
		return &lane{key: key, class: c, head: job}
	}
	return nil
}

// next moves on to the following job of the lane; false: there is none.
func (l *lane) next(v View) bool {
	if len(l.rest) == 0 {
		if l.buf == nil {
			l.buf = make([]*work.Job, readAhead)
		}
		l.rest = v.LaneJobsAfter(l.key, l.head, l.buf)
	}
	if len(l.rest) == 0 {
		return false
	}
	l.head, l.rest = l.rest[0], l.rest[1:]
	return true
}
