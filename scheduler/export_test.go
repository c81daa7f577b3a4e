package scheduler

import "cmp"

// Check compares what the planner keeps with the view of its last plan.
func (p *Planner) Check(v ChangingView) error {
	return cmp.Or(p.pool.Check(v), p.classes.room.Check(v))
}
