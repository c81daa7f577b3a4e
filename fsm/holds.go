package fsm

import (
	"fmt"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// verdict says how a dependency stands.
type verdict uint8

const (
	undecided verdict = iota
	met
	unmeetable
)

// judge says how a dependency stands, given the job depended on (nil: it was dropped long after its end).
func (d Dependency) judge(on *Job) verdict {
	switch {
	case on == nil:
		return unmeetable
	case !on.Terminal():
		return undecided
	case d.When == AfterAny, (d.When == AfterOK) == (on.State == v1.JobState_SUCCEEDED):
		return met
	}
	return unmeetable
}

// holds says what keeps a queued job from the scheduler, as things are now. A dependency that was met before the first
// attempt is not asked for again.
func (tx *tx) holds(j *Job) Hold {
	h := j.Held & HoldRecovery // that one ends otherwise: see releaseRecovered
	if j.NotBefore > tx.now {
		h |= HoldNotBefore
	}
	if j.Streak.After > tx.now {
		h |= HoldBackoff
	}
	if j.Attempt > 0 {
		return h
	}
	for _, d := range j.Dependencies {
		on, _ := tx.Job(d.Job)
		if d.judge(on) != met {
			h |= HoldDependency
		}
	}
	return h
}

// heldUntil is when the next of the holds that time alone ends is over; 0: there is none.
func (j *Job) heldUntil() int64 {
	var at int64
	if j.Held&HoldNotBefore != 0 {
		at = j.NotBefore
	}
	if j.Held&HoldBackoff != 0 && (at == 0 || j.Streak.After < at) {
		at = j.Streak.After
	}
	return at
}

// settles is when a hold of a recovery may end, if all nodes were heard of until then; 0: there is none.
func (j *Job) settles() int64 {
	if j.Held&HoldRecovery == 0 {
		return 0
	}
	return j.SettlesAt
}

// release ends the holds whose time has come.
func (j *Job) release(now int64) {
	if j.NotBefore <= now {
		j.Held &^= HoldNotBefore
	}
	if j.Streak.After <= now {
		j.Held &^= HoldBackoff
	}
}

func holdReason(j *Job) string {
	switch {
	case j.Held&HoldDependency != 0:
		return "it waits for the jobs that it depends on"
	case j.Held&HoldNotBefore != 0:
		return "its time has not come"
	case j.Held&HoldRecovery != 0:
		return "the cluster was recovered: it waits until all nodes have said what they run"
	case j.Held&HoldBackoff != 0:
		return "it pauses before its next restart"
	}
	return ""
}

// settleDependents looks at the jobs that waited for one that is over now: some come free, some can never run. Those
// that are canceled may have dependents of their own, so the work goes on through a list.
func (tx *tx) settleDependents(over *Job) {
	for work := []*Job{over}; len(work) > 0; {
		over, work = work[0], work[1:]
		var waiting []JobID
		for d := range tx.Dependents(over.ID) {
			waiting = append(waiting, d.ID)
		}
		for _, id := range waiting {
			old, _ := tx.Job(id)
			if !old.waitsForOthers() {
				continue
			}
			j := *old
			if why := tx.hopeless(&j); why != "" {
				j.FinishedAt, j.Held, j.SettlesAt, j.Credentials = tx.now, 0, 0, nil
				tx.move(&j, v1.JobState_CANCELED, "canceled: "+why)
				work = append(work, &j)
			} else if h := tx.holds(&j); h != j.Held {
				j.Held = h
				j.Reason = holdReason(&j)
				tx.emitJob(&j, j.State)
			} else {
				continue
			}
			j.UpdatedAt, j.Revision = tx.now, tx.index
			tx.putJob(old, &j)
		}
	}
}

// hopeless names the dependency that can never be met; empty: none.
func (tx *tx) hopeless(j *Job) string {
	for _, d := range j.Dependencies {
		on, _ := tx.Job(d.Job)
		if d.judge(on) != unmeetable {
			continue
		}
		want := "fail"
		if d.When == AfterOK {
			want = "succeed"
		}
		if on == nil {
			return fmt.Sprintf("%s, which it depends on, is gone", d.Job)
		}
		return fmt.Sprintf("%s, which it depends on, was to %s and ended %s", d.Job, want, on.State)
	}
	return ""
}
