package whatif

import (
	"slices"
	"time"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/place"
)

// Answer is what would become of the job.
type Answer struct {
	// Job is it as it would be, View the state.
	Job  *work.Job
	View scheduler.ForecastView
	// Nodes are where it would start now, in order of rank; none: it would wait.
	Nodes []string
	// Preempts is how many jobs would be preempted for it, which are asked to leave before it starts; 0: none.
	Preempts int
	// Why it would wait; empty when it would start, or is held.
	Why reason.Reason
	// Start is when it would start, as far as that is known: that of a forecast.
	Start scheduler.Start
	Known bool
}

// Starts says whether the job would start now, at once or when others have been preempted.
func (a *Answer) Starts() bool { return len(a.Nodes) > 0 }

// Prices are what places cost, as [scheduler.Options] takes them: answers from one view share them.
func Prices(v *fsm.View) func() *place.Prices {
	var learned *place.Prices
	done := false
	return func() *place.Prices {
		if !done {
			learned, done = place.Learn(v.Mix(), v.Nodes()), true
		}
		return learned
	}
}

// Try says what would become of a job that is QUEUED. The error is for the person who made the change.
func Try(v *fsm.View, j *work.Job, c Change, now time.Time, prices func() *place.Prices) (*Answer, error) {
	w, err := with(v, j, &c, now.UnixNano())
	if err != nil {
		return nil, err
	}
	a := &Answer{Job: w.job, View: w}
	a.plan(w, scheduler.Options{Prices: prices})
	if !a.Starts() {
		a.foresee(w, now)
	}
	return a, nil
}

// plan says what the next pass of the planner would do.
func (a *Answer) plan(w *view, opts scheduler.Options) {
	if !w.job.Waiting() {
		return
	}
	result := scheduler.Plan(w, opts)
	for i := range result.Commands {
		for k := range result.Commands[i].Placements {
			if p := &result.Commands[i].Placements[k]; p.Job == w.job.ID || w.job.Array != nil && p.Job.Submitted() == w.job.ID {
				a.on(p.Tasks)
				return
			}
		}
	}
	for i := range result.Commands {
		for _, r := range result.Commands[i].Reasons {
			if r.Class == w.key {
				a.Why = r.Reason
			}
		}
	}
	if !slices.Contains(result.Blocked, w.key) {
		return
	}
	for _, p := range scheduler.Preempt(w, []work.ClassKey{w.key}, w.now) {
		if p.Job == w.job.ID || w.job.Array != nil && p.Job.Submitted() == w.job.ID {
			a.on(p.Tasks)
			a.Preempts = len(p.Victims)
		}
	}
}

func (a *Answer) on(tasks []work.TaskPlacement) {
	for i := range tasks {
		a.Nodes = append(a.Nodes, tasks[i].Node)
	}
}

// foresee says when it would start.
func (a *Answer) foresee(w *view, now time.Time) {
	if a.Job.HeldBack() {
		if a.Job.Held == work.HoldNotBefore {
			a.Start, a.Known = scheduler.Start{At: a.Job.NotBefore}, true
		}
		return
	}
	a.Start, a.Known = scheduler.Foresee(w, a.Job.Tenant, now, scheduler.ForecastOptions{}).Start(a.Job.ID)
	if a.Start.After == 0 {
		a.Known = false // None of its tenant's jobs is in the way, and it waits nevertheless.
	}
}
