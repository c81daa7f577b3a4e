package executionverbs

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// openGate lets the job at a gate go on, or cancels it, as the decision says. A job whose attempt has not stopped yet goes on when it
// has: what it does after the gate, it does with the answer.
func openGate(tx *lifecycle.Tx, d *executions.Decision) *kernel.Refusal {
	c := jobverbs.ControlJob{Job: d.Job, Action: work.ActionResume}
	j, ok := tx.Find(d.Job)
	switch passed := d.Passed(); {
	case !ok:
		return nil
	case passed && d.Kept: // The user who has paused it resumes it.
		tx.SayAtGate(d.Job, reason.New(reason.GateKept, lifecycle.GateReason(d)))
		return nil
	case passed && j.Live():
		owed := *d
		owed.Owed = true
		executions.SaveDecision(tx.Entry, &owed)
		return nil
	case passed:
		c.Why = lifecycle.GateReason(d)
	case d.Status == executions.Resolved:
		c.Action, c.Why = work.ActionCancel, reason.New(reason.CanceledAtGate, d.ID, d.Resolution).Clip(executions.MaxText)
	default:
		c.Action, c.Why = work.ActionCancel, lifecycle.GateReason(d)
	}
	if j.State == v1.JobState_QUEUED || j.Terminal() {
		return nil
	}
	res := jobverbs.Control(tx, &c)
	tx.Flush()
	return res.Refusal
}
