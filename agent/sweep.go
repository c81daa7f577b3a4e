package agent

import (
	"os"
	"slices"
	"time"
)

// sweep removes the directories of tasks that ended long ago, or that are more
// than should be kept. It runs on the owner's goroutine; the disk work does
// not.
func (a *agent) sweep() {
	a.finished = 0
	var done []*task
	for _, t := range a.tasks {
		if t.state == ended && t.acked && !t.wanted {
			done = append(done, t)
		}
	}
	slices.SortFunc(done, func(x, y *task) int { return y.endedAt.Compare(x.endedAt) })
	now := time.Now()
	oldest := now.Add(-a.cfg.KeepTasksFor)
	var dirs []string
	for i, t := range done {
		if (i >= a.cfg.KeepTasks || t.endedAt.Before(oldest)) && a.mayGo(t, now) {
			delete(a.tasks, t.key)
			dirs = append(dirs, t.dir)
		}
	}
	if len(dirs) == 0 {
		return
	}
	a.minders.Go(func() {
		for _, dir := range dirs {
			if err := os.RemoveAll(dir); err != nil {
				a.log.Error("cannot remove a task directory", "dir", dir, "error", err)
			}
		}
	})
}
