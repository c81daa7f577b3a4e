package scheduler

import "cmp"

// NewByUser returns a planner that opens the lanes of each user when it is the user's turn.
func NewByUser() Planner {
	var p Planner
	p.classes.lanes.ByUser = true
	return p
}

// Check compares what the planner keeps with the view of its last plan.
func (p *Planner) Check(v ChangingView) error {
	return cmp.Or(p.pool.Check(v), p.classes.room.Check(v))
}
