package lifecycle

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Holds says what keeps a queued job from the scheduler, as things are now. A dependency that was met before the first
// attempt is not asked for again.
func (tx *Tx) Holds(j *work.Job) work.Hold {
	h := j.Held & (work.HoldRecovery | work.HoldUser) // they end otherwise: see releaseRecovered, and the verb release
	if j.NotBefore > tx.Now {
		h |= work.HoldNotBefore
	}
	if j.Streak.After > tx.Now {
		h |= work.HoldBackoff
	}
	if j.Attempt > 0 {
		return h
	}
	for _, d := range j.Dependencies {
		on, _ := tx.Find(d.Job)
		if d.Judge(on) != work.Met {
			h |= work.HoldDependency
		}
	}
	return h
}

// OpenDependencies are the dependencies that a job which is retried still waits for; waits: it waits for any.
func (tx *Tx) OpenDependencies(j *work.Job, waits bool) (open []work.Dependency) {
	if !waits || j.Attempt > 0 {
		return nil
	}
	for _, d := range j.Dependencies {
		if on, ok := tx.Find(d.Job); ok && !on.Terminal() {
			open = append(open, d)
		}
	}
	return open
}

// settleDependents looks at the jobs that waited for one that is over now: some come free, some can never run. Those
// that are canceled may have dependents of their own, so the work goes on through a list.
func (tx *Tx) settleDependents(over *work.Job) {
	for pending := []*work.Job{over}; len(pending) > 0; {
		over, pending = pending[0], pending[1:]
		var waiting []ident.Job
		for d := range tx.Dependents(over.ID) {
			waiting = append(waiting, d.ID)
		}
		if over.Array != nil {
			for _, element := range tx.ElementsLookedAt(over.ID) {
				for d := range tx.Dependents(element) {
					waiting = append(waiting, d.ID)
				}
			}
		}
		for _, id := range waiting {
			old, _ := tx.Job(id)
			if !old.WaitsForOthers() {
				continue
			}
			j := *old
			if why := tx.Hopeless(&j); why != "" {
				j.FinishedAt, j.Held, j.SettlesAt, j.Credentials = tx.Now, 0, 0, nil
				Abandon(&j)
				tx.Move(&j, v1.JobState_CANCELED, reason.New(reason.CanceledBecause, why))
				pending = append(pending, &j)
			} else if h := tx.Holds(&j); h != j.Held {
				j.Held = h
				j.Reason = work.HoldReason(&j)
				tx.EmitJob(&j, j.State)
			} else {
				continue
			}
			j.UpdatedAt, j.Revision = tx.Now, tx.Index
			tx.announce(old, &j)
			tx.PutJob(old, &j)
		}
	}
}

// Hopeless names the dependency that can never be met; empty: none.
func (tx *Tx) Hopeless(j *work.Job) reason.Reason {
	for _, d := range j.Dependencies {
		on, _ := tx.Find(d.Job)
		if d.Judge(on) != work.Unmeetable {
			continue
		}
		switch {
		case on == nil:
			return reason.New(reason.DependencyGone, d.Job)
		case d.When == work.AfterOK:
			return reason.New(reason.DependencyDidNotSucceed, d.Job, on.State)
		}
		return reason.New(reason.DependencyDidNotFail, d.Job, on.State)
	}
	return ""
}
