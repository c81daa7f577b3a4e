package scheduler

import (
	"cmp"
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
)

// heldJob is a job for which the places of some of its tasks are held.
type heldJob struct {
	class *class
	job   *work.Job
	hold  *claims.Claim
}

// complete finds the places that jobs are missing beside those that are held for them. A job that finds none waits in line
// like others, for places for all of its tasks.
func (p *pass) complete(held []heldJob) {
	slices.SortFunc(held, func(a, b heldJob) int {
		return cmp.Or(cmp.Compare(b.job.Priority, a.job.Priority), byAge(a.job.ID, b.job.ID))
	})
	for _, h := range held {
		if h.class.limits.bars(h.class.key.Shape) != "" {
			p.block(h.class)
			continue
		}
		tasks, ok, wait := h.class.fit.Complete(h.hold.Places(h.job.Shape.Nodes), p.opts.Settled)
		p.res.Settling = p.res.Settling || wait
		if !ok {
			p.enter(h.class)
			continue
		}
		p.put(h.class, h.job, work.Placement{Job: h.job.ID, Attempt: h.job.Attempt + 1, Tasks: tasks})
	}
}
