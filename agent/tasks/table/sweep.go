package table

import (
	"slices"
	"time"

	"github.com/mindcoordinator/mind/agent/taskid"
)

// Tidy is called when a task has ended. It sweeps from time to time.
func (tb *Table) Tidy(now time.Time) {
	tb.finished++
	if tb.finished > tb.cfg.KeepTasks/10+10 {
		tb.sweep(now)
	}
}

// sweep removes the directories of tasks that ended long ago, or that exceed the number to keep.
func (tb *Table) sweep(now time.Time) {
	tb.finished = 0
	var done []*Task
	for _, t := range tb.order {
		if t.state == Ended && t.acked && !t.wanted {
			done = append(done, t)
		}
	}
	slices.SortStableFunc(done, func(x, y *Task) int { return y.endedAt.Compare(x.endedAt) })
	oldest := now.Add(-tb.cfg.KeepTasksFor)
	var gone []taskid.ID
	for i, t := range done {
		if (i >= tb.cfg.KeepTasks || t.endedAt.Before(oldest)) && tb.cfg.Work.MayRemove(t.ID, t.endedAt, now) {
			tb.remove(t)
			gone = append(gone, t.ID)
		}
	}
	if len(gone) > 0 {
		tb.cfg.Work.Remove(gone)
	}
}
