package lifecycle

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// gateTimeout bounds a gate that says nothing else, and maxGateTimeout every one; nanoseconds.
const (
	gateTimeout    = 30 * 24 * 3600 * int64(1e9)
	maxGateTimeout = 366 * 24 * 3600 * int64(1e9)
)

// ReachGate has people decide whether a live job goes on: its attempt is asked to stop as for a pause, so that the GPUs are free while
// they think. asked.ExpiresAt is relative to now. A gate that the job has passed, or that it waits at, is not asked about again: an
// attempt that goes on from before the gate reaches it a second time. One that a user has paused or canceled, or that fails, is not
// asked about either: it reaches the gate again if it is resumed. false: nothing was asked.
func (tx *Tx) ReachGate(j *work.Job, asked *executions.Decision) bool {
	book := executions.Of(tx.Entry.State)
	var earlier []*executions.Decision
	for d := range book.GatesOf(j.ID) {
		if d.Status == executions.Pending || d.Path == asked.Path && d.Passed() {
			return false
		}
		earlier = append(earlier, d)
	}
	if len(earlier) >= executions.MaxGates || asked.Path == "" || !executions.Askable(asked) || !j.Live() || j.Ending != nil {
		return false
	}
	id, ok := tx.Mint()
	if !ok {
		return false
	}
	d := *asked
	d.ID, d.Tenant, d.Job, d.Attempt = ident.Decision(id), j.Tenant, j.ID, j.Attempt
	d.Core, d.Execution, d.Wait, d.Flow, d.Node = 0, 0, 0, "", ""
	after := asked.ExpiresAt
	if after <= 0 {
		after = gateTimeout
	}
	d.ExpiresAt = tx.Now + min(after, maxGateTimeout)
	switch j.Stop {
	case v1.StopReason_UNSPECIFIED:
		why := reason.New(reason.WaitsAtGate, d.ID, asked.Prompt)
		if tx.Pause(j, why.Clip(executions.MaxText), true) != nil {
			return false
		}
	case v1.StopReason_PREEMPT, v1.StopReason_DRAIN:
		// It stops anyway, and makes room for others as it was told; holdAtGate keeps it from its next attempt.
	default:
		return false
	}
	for _, old := range earlier {
		executions.Shrink(tx.Entry, old)
	}
	executions.Ask(tx.Entry, &d)
	return true
}

// KeepAtGate is called when a user pauses a job: an answer at its gate then does not let it go on.
func (tx *Tx) KeepAtGate(j *work.Job) {
	var kept []*executions.Decision
	for d := range executions.Of(tx.Entry.State).GatesOf(j.ID) {
		if (d.Status == executions.Pending || d.Owed) && !d.Kept {
			kept = append(kept, d)
		}
	}
	for _, old := range kept {
		d := *old
		if d.Kept, d.Owed = true, false; old.Owed {
			j.Reason = reason.New(reason.GateKept, GateReason(old))
		}
		executions.SaveDecision(tx.Entry, &d)
	}
}

// SayAtGate changes the reason of a job that is held at a gate, or is about to be.
func (tx *Tx) SayAtGate(id ident.Job, why reason.Reason) {
	old, ok := tx.Job(id)
	if !ok || old.State != v1.JobState_PAUSED && old.Stop != v1.StopReason_PAUSE {
		return
	}
	j := *old
	j.Reason = why.Clip(executions.MaxText)
	tx.EmitJob(&j, j.State)
	tx.SaveJob(old, &j)
}

// passGate lets a job go on that has stopped for a gate, if people have said so meanwhile.
func (tx *Tx) passGate(j *work.Job) {
	for d := range executions.Of(tx.Entry.State).GatesOf(j.ID) {
		if d.Owed && tx.MayGoOn(j.ID.Submitted()) == nil {
			j.Streak = work.Streak{}
			tx.Requeue(j, &work.Ending{}, GateReason(d))
			return
		}
	}
}

// GateReason says how a gate was decided.
func GateReason(d *executions.Decision) reason.Reason {
	switch {
	case d.Split:
		return reason.New(reason.GateUndecided, d.ID)
	case d.Status == executions.Expired:
		return reason.New(reason.GateExpired, d.ID)
	}
	return reason.New(reason.GateAnswered, d.ID, d.Resolution).Clip(executions.MaxText)
}

// holdAtGate keeps a job from its next attempt that was requeued for another reason than an answer.
func (tx *Tx) holdAtGate(j *work.Job) {
	if d := executions.Of(tx.Entry.State).ClosedGate(j.ID); d != nil {
		j.Held, j.SettlesAt = 0, 0
		tx.Move(j, v1.JobState_PAUSED, reason.New(reason.WaitsAtGate, d.ID, d.Prompt).Clip(executions.MaxText))
	}
}
