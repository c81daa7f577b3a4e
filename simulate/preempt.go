package simulate

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/preempt"
)

var _ preempt.View = (*cluster)(nil)

// yields reports whether a job could be preempted for a higher priority, or for what a queue is guaranteed.
func yields(on Cluster, jobs []*job) bool {
	if slices.ContainsFunc(on.Queues, func(q *work.Queue) bool { return q.Guaranteed > 0 }) {
		return true
	}
	return slices.ContainsFunc(jobs, func(j *job) bool { return j.row.Priority != jobs[0].row.Priority })
}

// makeRoom preempts jobs for those that fit nowhere, as the leader does after a plan: for jobs within the guarantee of their queue,
// and for jobs of a higher priority. The victims leave at once.
func (r *run) makeRoom(ctx context.Context, opts scheduler.Options) error {
	result, err := r.backfill(ctx, opts)
	for err == nil && result.Blocked.Any() {
		made := preempt.Choose(r.cluster, result.Blocked.Keys(), r.cluster.now)
		if len(made) == 0 {
			return nil
		}
		for i := range made {
			for _, v := range made[i].Victims {
				r.preempt(r.byID[v.Job])
			}
			if err := r.start(work.Placement{Job: made[i].Job, Attempt: made[i].Attempt, Tasks: made[i].Tasks}); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		result, err = r.backfill(ctx, opts)
	}
	return err
}

// unprotected returns when the policy next stops to protect a running job from a higher priority; 0: it protects none.
func (r *run) unprotected() (next int64) {
	protect := r.cluster.policy.Preemption.ProtectFromPriority
	if !r.yields || protect == 0 {
		return 0
	}
	for _, j := range r.running { // order-free: the earliest
		if at := j.row.ProtectedUntil(protect); j.row.Preemptible && at > r.cluster.now && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// The methods below implement preempt.View.

// mostTurns is how often a job is preempted for a priority or a guarantee. In a cluster it is not limited: where three jobs
// preempt each other in turn, it goes on until one of them ends. A run has to end.
const mostTurns = 100

// ActiveJobs iterates the running jobs that may be preempted, by id. A job that has started at this moment is none of them.
func (c *cluster) ActiveJobs() iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		for _, id := range slices.Sorted(maps.Keys(c.active)) {
			row := c.active[id].row
			if row.StartedAt == c.now || row.Retries.Preempted >= mostTurns {
				continue
			}
			if !yield(row) {
				return
			}
		}
	}
}

// Checkpoint returns the newest checkpoint of a running job: it has the number of the job.
func (c *cluster) Checkpoint(id ident.Checkpoint) (*checkpoints.Checkpoint, bool) {
	j, ok := c.active[ident.Job(id)]
	if !ok {
		return nil, false
	}
	at := j.savedAt(c.now)
	return &checkpoints.Checkpoint{ID: id, Job: j.row.ID, Attempt: j.row.Attempt, CreatedAt: at}, at != 0
}

// Queues iterates the queues by name.
func (s *shares) Queues() iter.Seq[*work.Queue] {
	return func(yield func(*work.Queue) bool) {
		for _, name := range slices.Sorted(maps.Keys(s.queues)) {
			if !yield(s.queues[name]) {
				return
			}
		}
	}
}

// Claims iterates nothing: victims leave at once.
func (c *cluster) Claims() iter.Seq[*claims.Claim] { return func(func(*claims.Claim) bool) {} }
