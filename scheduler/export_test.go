package scheduler

// Check compares what the planner keeps with the view of its last plan.
func (p *Planner) Check(v ChangingView) error { return p.pool.Check(v) }
