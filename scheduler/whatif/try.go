package whatif

import (
	"time"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/foresee"
	"github.com/mindcoordinator/mind/scheduler/preempt"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

// Answer says what would happen to the job.
type Answer struct {
	// Job is the changed job, View the state with the change.
	Job  *work.Job
	View foresee.View
	// Nodes are the nodes on which it would start now, in the order of the ranks; none: it would wait.
	Nodes []string
	// Preempts is the number of jobs that would be preempted before it starts.
	Preempts int
	// Why is the reason why it would wait; empty if it would start, or is held.
	Why reason.Reason
	// Start is the forecast start. It is valid if Known is true.
	Start foresee.Start
	Known bool
}

// Starts reports whether the job would start now, at once or after others have been preempted.
func (a *Answer) Starts() bool { return len(a.Nodes) > 0 }

// Prices returns a function for [scheduler.Options] that learns the prices of a view once. Answers from one view share
// it.
func Prices(v *fsm.View) func() *worth.Prices {
	var learned *worth.Prices
	done := false
	return func() *worth.Prices {
		if !done {
			learned, done = worth.Learn(v.Mix(), v.Nodes()), true
		}
		return learned
	}
}

// Try returns what would happen to a job that is QUEUED. The error is for the person who supposed the change.
func Try(v *fsm.View, j *work.Job, c Change, now time.Time, prices func() *worth.Prices) (*Answer, error) {
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

// plan fills in what the leader would do next: it plans, and then chooses jobs to preempt.
func (a *Answer) plan(w *view, opts scheduler.Options) {
	if !w.job.Waiting() {
		return
	}
	opts.Backfill, opts.Now = w.PromiseCount() > 0, w.now
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
	if !result.Blocked.Has(&w.key) {
		return
	}
	for i := range result.Commands {
		for k := range result.Commands[i].Placements {
			w.start(&result.Commands[i].Placements[k])
		}
	}
	for _, p := range preempt.Choose(w, result.Blocked.Keys(), w.now) {
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

// foresee fills in when the job would start.
func (a *Answer) foresee(w *view, now time.Time) {
	if a.Job.HeldBack() {
		if a.Job.Held == work.HoldNotBefore {
			a.Start, a.Known = foresee.Start{At: a.Job.NotBefore}, true
		}
		return
	}
	a.Start, a.Known = foresee.Starts(w, a.Job.Tenant, now, foresee.Options{}).Start(a.Job.ID)
	if !a.Start.Waits() {
		a.Known = false // The job waits although nothing that the forecast knows is in the way, so jobs of other tenants are.
	}
}
