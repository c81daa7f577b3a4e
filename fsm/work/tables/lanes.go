package tables

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/changes"
)

// LanesChanged is a mark behind the lanes in which a job began or stopped to wait, or has got a new row. So the lanes between
// the marks of two views are those that differ, beside some that do not.
func (v *View) LanesChanged() changes.Mark[*work.Lane] { return v.jobs.changed }

// NumberedLanes iterates the lanes of a class, by tenant and user, with their numbers.
func (v *View) NumberedLanes(class work.ClassKey) iter.Seq[*work.Lane] {
	return func(yield func(*work.Lane) bool) {
		v.jobs.lanes.AscendFrom(laneNumber{key: work.LaneKey{Class: class}}, func(l laneNumber) bool {
			return l.key.Class == class && yield(&work.Lane{Key: l.key, Number: l.number})
		})
	}
}

// OldestBelow returns the oldest waiting job with the highest priority that is below one (256: with the highest one) in the lane
// of a number; nil: there is none.
func (v *View) OldestBelow(lane uint32, priority int) *work.Job {
	if priority <= 0 {
		return nil
	}
	var oldest *work.Job
	v.ascendLane(waitingJob{place: uint64(lane)<<8 | uint64(256-priority)}, lane, func(j *work.Job) bool {
		oldest = j
		return false
	})
	return oldest
}
