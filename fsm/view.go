package fsm

import (
	"iter"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// View is the state as of one log index. It never changes, costs no lock to read, and may be kept for as long as
// anybody likes.
type View struct {
	state
	sum uint64
}

// Index is that of the last entry in this view.
func (v *View) Index() uint64 { return v.meta.Index }

// Now is log time, Unix nanoseconds.
func (v *View) Now() int64 { return v.meta.Now }

// Hash is the running state hash: equal on all replicas at the same index.
func (v *View) Hash() uint64 { return v.sum }

// Considered is the index up to which the scheduler has looked at every job.
func (v *View) Considered() uint64 { return v.meta.Considered }

// Fenced is how many stale reports were refused, ever.
func (v *View) Fenced() uint64 { return v.meta.Fenced }

// Incomplete is how many checkpoints were refused because they had no manifest, ever.
func (v *View) Incomplete() uint64 { return v.meta.Incomplete }

// Configured is what Configure has set.
func (v *View) Configured() Configure {
	return Configure{KeepFinished: v.meta.KeepFinished, KeepAudit: v.meta.KeepAudit}
}

// Voters are the ids of the replicas that vote.
func (v *View) Voters() []string { return append([]string(nil), v.meta.Voters...) }

// Counts is how many jobs there are, by state.
func (v *View) Counts() Counts { return v.jobs.counts }

// NextDue is the log time from which on a Tick has something to do; false: never, as things are. What depends on a
// node being away is not in it: while any is, a Tick is due every few seconds.
func (v *View) NextDue() (int64, bool) {
	due, any := int64(0), false
	if v.jobs.finished.len() > v.meta.keepFinished() {
		// Not at once: what is over the bound may have to stay for a while.
		due, any = v.meta.Now+1e9, true
	}
	consider := func(at int64) {
		if !any || at < due {
			due, any = at, true
		}
	}
	if t, ok := v.jobs.timers.tree.Min(); ok {
		consider(t.at)
	}
	if k, ok := v.keys.rows.tree.Min(); ok {
		consider(k.key.expiresAt)
	}
	if t, ok := v.nodes.timers.tree.Min(); ok {
		consider(t.at)
	}
	if t, ok := v.jobs.recovering.tree.Min(); ok && v.nodes.unheard.len() == 0 {
		consider(t.at)
	}
	return due, any
}

// Job returns a job by its id.
func (s *state) Job(id JobID) (*Job, bool) { return s.jobs.rows.get(id) }

// Jobs iterates all jobs by id, from that id on (inclusive; 0: from the end that comes first).
func (v *View) Jobs(desc bool, from JobID) iter.Seq[*Job] {
	switch {
	case !desc:
		return v.jobs.rows.rowsFrom(from)
	case from == 0:
		return v.jobs.rows.rowsDown(^JobID(0))
	}
	return v.jobs.rows.rowsDown(from)
}

// ActiveJobs iterates the jobs with leases, by id.
func (v *View) ActiveJobs() iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		v.jobs.active.tree.Ascend(func(id JobID) bool {
			j, _ := v.Job(id)
			return yield(j)
		})
	}
}

// Pending says whether the job waits and the scheduler has never yet considered it.
func (v *View) Pending(j *Job) bool {
	return j.State == v1.JobState_QUEUED && j.Attempt == 0 && j.Created > v.meta.Considered
}

// Classes iterates the classes of which a job waits.
func (v *View) Classes() iter.Seq[ClassKey] {
	return func(yield func(ClassKey) bool) {
		v.jobs.classes.tree.Ascend(func(c classNumber) bool { return yield(c.key) })
	}
}

// ClassReason is why the jobs of a class wait, as the scheduler last said; empty: it has not said.
func (v *View) ClassReason(k ClassKey) string {
	if r, ok := v.jobs.reasons.get(k); ok {
		return r.Reason
	}
	return ""
}

// ClassJobs iterates the waiting jobs of a class, priority first, then age.
func (v *View) ClassJobs(k ClassKey) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		if c, ok := v.jobs.classes.tree.Get(classNumber{key: k}); ok {
			v.ascendClass(waitingJob{place: uint64(c.number) << 8}, c.number, yield)
		}
	}
}

// ClassJobsAfter fills buf with the waiting jobs of a class that come after one of them (nil: from the head), and
// returns the part that was filled. It serves those who merge classes.
func (v *View) ClassJobsAfter(k ClassKey, after *Job, buf []*Job) []*Job {
	c, ok := v.jobs.classes.tree.Get(classNumber{key: k})
	if !ok || len(buf) == 0 {
		return buf[:0]
	}
	from := waitingJob{place: uint64(c.number) << 8}
	if after != nil {
		from = waitingJob{place: waitingPlace(c.number, after.Priority), id: after.ID + 1}
	}
	n := 0
	v.ascendClass(from, c.number, func(j *Job) bool {
		buf[n] = j
		n++
		return n < len(buf)
	})
	return buf[:n]
}

func (v *View) ascendClass(from waitingJob, class uint32, yield func(*Job) bool) {
	v.jobs.waiting.tree.AscendGreaterOrEqual(from, func(w waitingJob) bool {
		return uint32(w.place>>8) == class && yield(w.job)
	})
}

// Dependents iterates the jobs that wait for the end of that one.
func (s *state) Dependents(id JobID) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		s.jobs.dependents.tree.AscendGreaterOrEqual(dependentJob{on: id}, func(d dependentJob) bool {
			if d.on != id {
				return false
			}
			j, _ := s.Job(d.id)
			return yield(j)
		})
	}
}
