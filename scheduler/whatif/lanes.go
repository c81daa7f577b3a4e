package whatif

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Classes iterates the classes of the state and the class of the job.
func (w *view) Classes() iter.Seq[work.ClassKey] {
	return func(yield func(work.ClassKey) bool) {
		for key := range w.View.Classes() {
			for _, class := range w.split(key) {
				if class != w.key && !yield(class) {
					return
				}
			}
		}
		if w.job.Waiting() {
			yield(w.key)
		}
	}
}

// split returns the classes that a class of the state becomes: the tenant's jobs are apart if only the change limits
// them.
func (w *view) split(key work.ClassKey) []work.ClassKey {
	if !w.limited || key.Tenant != "" {
		return []work.ClassKey{key}
	}
	mine := key
	mine.Tenant = w.job.Tenant
	var parts []work.ClassKey
	for _, part := range []work.ClassKey{key, mine} {
		for range w.Lanes(part) {
			parts = append(parts, part)
			break
		}
	}
	return parts
}

// stated returns the class of the state that a class comes from.
func (w *view) stated(class work.ClassKey) work.ClassKey {
	if w.limited && class.Tenant == w.job.Tenant {
		class.Tenant = ""
	}
	return class
}

// has reports whether the jobs of a tenant are in a class, if the class of the state has jobs of this tenant.
func (w *view) has(class work.ClassKey, tenant string) bool {
	return !w.limited || (class.Tenant == w.job.Tenant) == (tenant == w.job.Tenant)
}

func (w *view) ClassOf(j *work.Job) work.ClassKey {
	if j.ID == w.job.ID {
		return w.key
	}
	key := w.View.ClassOf(j)
	if w.limited && j.Tenant == w.job.Tenant {
		key.Tenant = j.Tenant
	}
	return key
}

func (w *view) ClassReason(key work.ClassKey) reason.Reason {
	if key == w.key {
		return ""
	}
	return w.View.ClassReason(w.stated(key))
}

func (w *view) lane() work.LaneKey {
	return work.LaneKey{Class: w.key, Tenant: w.job.Tenant, User: w.job.User}
}

func (w *view) Lanes(class work.ClassKey) iter.Seq[work.LaneKey] {
	return func(yield func(work.LaneKey) bool) {
		if class == w.key {
			yield(w.lane())
			return
		}
		for lane := range w.View.Lanes(w.stated(class)) {
			if lane.Class = class; w.has(class, lane.Tenant) && !yield(lane) {
				return
			}
		}
	}
}

// stays reports whether a waiting job is neither the changed one nor canceled, and was not placed.
func (w *view) stays(j *work.Job) bool {
	return j.ID != w.job.ID && w.gone[j.ID] == nil && w.started[j.ID] == nil
}

func (w *view) ClassJobs(class work.ClassKey) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		if class == w.key {
			yield(w.job)
			return
		}
		for j := range w.View.ClassJobs(w.stated(class)) {
			if w.stays(j) && w.has(class, j.Tenant) && !yield(j) {
				return
			}
		}
	}
}

func (w *view) LaneJobs(lane work.LaneKey) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		if lane == w.lane() {
			yield(w.job)
			return
		}
		lane.Class = w.stated(lane.Class)
		for j := range w.View.LaneJobs(lane) {
			if w.stays(j) && !yield(j) {
				return
			}
		}
	}
}

func (w *view) LaneJobsAfter(lane work.LaneKey, after *work.Job, buf []*work.Job) []*work.Job {
	if lane == w.lane() {
		if len(buf) == 0 || after != nil && (after.Priority < w.job.Priority || after.Priority == w.job.Priority && !after.ID.Older(w.job.ID)) {
			return buf[:0]
		}
		buf[0] = w.job
		return buf[:1]
	}
	lane.Class = w.stated(lane.Class)
	for {
		read := w.View.LaneJobsAfter(lane, after, buf)
		if len(read) == 0 {
			return read
		}
		last, kept := read[len(read)-1], buf[:0]
		for _, j := range read {
			if w.stays(j) {
				kept = append(kept, j)
			}
		}
		if len(kept) > 0 {
			return kept
		}
		after = last
	}
}
