package scheduler

import (
	"cmp"
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/scheduler/order"
)

// claimedJob is a job with a claim on the places of some of its tasks.
type claimedJob struct {
	class *class
	job   *work.Job
	claim *claims.Claim
}

// claimOf returns the job of a class that has a claim on places after a fault; nil: none has. Such a job is a class of its
// own.
func (p *pass) claimOf(key work.ClassKey) *claimedJob {
	if key.Own == 0 {
		return nil
	}
	claim, ok := p.view.ClaimOf(key.Own)
	if !ok || !claim.IsHold() {
		return nil
	}
	for job := range lanesJobs(p.view, key) {
		return &claimedJob{job: job, claim: claim}
	}
	return nil
}

// complete finds the places that claimed jobs lack beside those of their claims. A job for which it finds none waits in line
// like others, for places for all of its tasks: complete returns the classes of these jobs.
func (p *pass) complete(claimed []claimedJob) (rest []*class) {
	slices.SortFunc(claimed, func(a, b claimedJob) int {
		return cmp.Or(cmp.Compare(b.job.Priority, a.job.Priority), order.ByAge(a.job.ID, b.job.ID))
	})
	for _, h := range claimed {
		if h.class.limits.Bars(h.class.Key.Shape) != "" {
			p.block(h.class)
			continue
		}
		places := h.claim.Places(h.job.Shape.Nodes)
		if p.searches.keepsAny(&h.class.Key, places) {
			p.block(h.class)
			continue
		}
		tasks, ok, wait := h.class.search.fit.Complete(places, p.opts.Settled)
		p.res.Settling = p.res.Settling || wait
		switch {
		case !ok && h.class.search.fit.Fits():
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
