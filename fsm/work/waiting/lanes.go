package waiting

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/changes"
)

// LanesChanged is a mark behind the lanes in which a job began or stopped to wait, or has got a new row. So the lanes between
// the marks of two views are those that differ, beside some that do not.
func (l *Lists) LanesChanged() changes.Mark[*work.Lane] { return l.changed }

// ReasonsChanged is a mark behind the classes whose reason has changed, as LanesChanged is for lanes.
func (l *Lists) ReasonsChanged() changes.Mark[*work.ClassKey] { return l.explained }

// Lanes iterates the lanes of a class, by tenant and user.
func (l *Lists) Lanes(class work.ClassKey) iter.Seq[work.LaneKey] {
	return func(yield func(work.LaneKey) bool) {
		l.lanes.AscendFrom(laneNumber{key: work.LaneKey{Class: class}}, func(n laneNumber) bool {
			return n.key.Class == class && yield(n.key)
		})
	}
}

// NumberedLanes iterates the lanes of a class, by tenant and user, with their numbers.
func (l *Lists) NumberedLanes(class work.ClassKey) iter.Seq[*work.Lane] {
	return func(yield func(*work.Lane) bool) {
		l.lanes.AscendFrom(laneNumber{key: work.LaneKey{Class: class}}, func(n laneNumber) bool {
			return n.key.Class == class && yield(&work.Lane{Key: n.key, Number: n.number})
		})
	}
}

// ClassJobs iterates the waiting jobs of a class, lane by lane.
func (l *Lists) ClassJobs(class work.ClassKey) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		for lane := range l.Lanes(class) {
			for j := range l.LaneJobs(lane) {
				if !yield(j) {
					return
				}
			}
		}
	}
}

// LaneJobs iterates the waiting jobs of a lane, priority first, then age.
func (l *Lists) LaneJobs(k work.LaneKey) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		if n, ok := l.lanes.Get(laneNumber{key: k}); ok {
			l.ascendLane(waitingJob{place: uint64(n.number) << 8}, n.number, yield)
		}
	}
}

// LaneJobsAfter fills buf with the waiting jobs of a lane that come after one of them (nil: from the head), and
// returns the part that was filled. It serves those who merge lanes.
func (l *Lists) LaneJobsAfter(k work.LaneKey, after *work.Job, buf []*work.Job) []*work.Job {
	lane, ok := l.lanes.Get(laneNumber{key: k})
	if !ok || len(buf) == 0 {
		return buf[:0]
	}
	from := waitingJob{place: uint64(lane.number) << 8}
	if after != nil {
		from = waitingJob{place: placeIn(lane.number, after.Priority), id: after.ID}
	}
	n := 0
	l.ascendLane(from, lane.number, func(j *work.Job) bool {
		if after != nil && j.ID == after.ID {
			return true
		}
		buf[n] = j
		n++
		return n < len(buf)
	})
	return buf[:n]
}

// OldestBelow returns the oldest waiting job with the highest priority that is below one (256: with the highest one) in the lane
// of a number; nil: there is none.
func (l *Lists) OldestBelow(lane uint32, priority int) *work.Job {
	if priority <= 0 {
		return nil
	}
	var oldest *work.Job
	l.ascendLane(waitingJob{place: uint64(lane)<<8 | uint64(256-priority)}, lane, func(j *work.Job) bool {
		oldest = j
		return false
	})
	return oldest
}

func (l *Lists) ascendLane(from waitingJob, lane uint32, yield func(*work.Job) bool) {
	l.waiting.AscendFrom(from, func(w waitingJob) bool {
		return uint32(w.place>>8) == lane && yield(w.job)
	})
}
