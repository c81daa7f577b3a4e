package executionverbs

import (
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// maxPerTick bounds the timers that fire in one Tick, so that other writes need not wait long behind it. The leader proposes the next
// one at once.
const maxPerTick = 500

// Tick ends the waits whose time has come, lets decisions expire and assignees be reminded, and forgets executions beyond the bound.
func Tick(entry *kernel.Tx) (more bool) {
	lifecycle.Within(entry, func(tx *lifecycle.Tx) { more = tick(tx) })
	return more
}

func tick(tx *lifecycle.Tx) (more bool) {
	book := bookOf(tx)
	for range maxPerTick {
		due, ok := executions.FirstDue(book, tx.Now)
		if !ok {
			break
		}
		if due.Decision != 0 {
			d, _ := book.Decision(due.Decision)
			lapse(tx, d)
			continue
		}
		w := *edit(tx, due.Execution).Wait(due.Wait)
		if w.Kind == executions.ForDecision {
			// The decision is due at the same time, and says what happens.
			d, _ := book.Decision(w.Decision)
			lapse(tx, d)
			continue
		}
		drop(tx, due.Execution, due.Wait)
		if w.Kind != executions.ForTimer {
			e := edit(tx, due.Execution)
			e.Wait(due.Wait).Err = &executions.Failure{Code: "TIMEOUT", Message: "the " + w.Kind.String() + " that it waited for took too long", Retryable: true}
			executions.Save(tx.Entry, e)
		}
	}
	for range maxPerTick {
		e := executions.Excess(book)
		if e == nil {
			break
		}
		executions.Forget(book, e)
	}
	_, more = executions.FirstDue(book, tx.Now)
	return more || executions.Excess(book) != nil
}

// lapse lets a decision expire, or reminds its assignee.
func lapse(tx *lifecycle.Tx, old *executions.Decision) {
	d := *old
	if d.ExpiresAt == 0 || d.ExpiresAt > tx.Now {
		d.Reminders++
		d.RemindAt = tx.Now + d.RemindEvery
		executions.SaveDecision(tx.Entry, &d)
		return
	}
	switch {
	case d.OnExpiry == executions.ExpireEscalate && !d.Escalated:
		d.Escalated, d.Assignee = true, d.EscalateTo
		d.AssigneeType, _ = executions.ParseAssignee(d.Assignee)
		d.ExpiresAt = tx.Now + max(old.ExpiresAt-old.CreatedAt, 60e9)
		if d.RemindAt != 0 {
			// The new assignee is not reminded at once.
			d.RemindAt = tx.Now + d.RemindEvery
		}
		extend(tx, &d)
		return
	case d.OnExpiry == executions.ExpireResolve:
		d.Status, d.Resolution, d.ResolvedAt = executions.Resolved, d.Default, tx.Now
	default:
		d.Status = executions.Expired
	}
	executions.SaveDecision(tx.Entry, &d)
	_ = answer(tx, &d) // A job that cannot go on stays paused.
}

// extend gives a decision and its wait another deadline.
func extend(tx *lifecycle.Tx, d *executions.Decision) {
	executions.SaveDecision(tx.Entry, d)
	old, ok := bookOf(tx).Execution(d.Execution)
	if !ok || old.Status.Over() {
		return
	}
	e := executions.Edit(old)
	if w := e.Wait(d.Wait); w != nil && !w.Done {
		w.Deadline = d.ExpiresAt
		executions.Save(tx.Entry, e)
	}
}
