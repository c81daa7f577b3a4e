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

// holdOf finds the job of a class for which places are held. It is a class of its own.
func (p *pass) holdOf(key work.ClassKey) *heldJob {
	if key.Own == 0 {
		return nil
	}
	k, kept := p.view.ClaimOf(key.Own)
	if !kept || !k.IsHold() {
		return nil
	}
	for job := range lanesJobs(p.view, key) {
		return &heldJob{job: job, hold: k}
	}
	return nil
}

// complete finds the places that jobs are missing beside those that are held for them. Those that find none wait in line
// like others, for places for all of their tasks: their classes are returned.
func (p *pass) complete(held []heldJob) (rest []*class) {
	slices.SortFunc(held, func(a, b heldJob) int {
		return cmp.Or(cmp.Compare(b.job.Priority, a.job.Priority), byAge(a.job.ID, b.job.ID))
	})
	for _, h := range held {
		if h.class.limits.bars(h.class.key.Shape) != "" {
			p.block(h.class)
			continue
		}
		places := h.hold.Places(h.job.Shape.Nodes)
		if p.keepsAny(h.class, places) {
			p.block(h.class)
			continue
		}
		tasks, ok, wait := h.class.fit.Complete(places, p.opts.Settled)
		p.res.Settling = p.res.Settling || wait
		switch {
		case !ok && h.class.fit.Fits():
			rest = append(rest, h.class)
			continue
		case !ok:
			p.block(h.class)
			continue
		}
		p.grant(h.class, h.job, work.Placement{Job: h.job.ID, Attempt: h.job.Attempt + 1, Tasks: tasks})
	}
	return rest
}
