package scheduler

import (
	"math"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/predict"
)

// ranking says which of two waiting jobs comes first: by what the policy makes of their priority, age and history.
type ranking struct {
	policy work.Policy
	now    int64
	model  *predict.Model
	// buf and one are for the jobs that are read next.
	buf []*work.Job
	one [1]*work.Job
}

// rank is where a job stands. Lower is earlier, field by field.
type rank struct {
	above int // how far its priority is below the highest that there is, after aging
	need  float64
	id    ident.Job
}

func newRanking(v View, opts Options) *ranking {
	r := &ranking{policy: v.Policy(), now: v.Now(), model: opts.Model}
	if r.model == nil {
		r.model = &predict.Model{}
	}
	return r
}

// stratified says that the jobs of a lane are looked at by priority. Otherwise their order in the state is the one in which
// they are offered.
func (r *ranking) stratified() bool {
	return r.policy.AgingStep > 0 || r.policy.Order != work.OrderFIFO
}

func (r *ranking) of(j *work.Job) rank {
	return rank{above: -int(j.Priority) - r.aged(j), need: r.need(j), id: j.ID}
}

// leads says whether the oldest job of a lane and priority, which has this rank, comes first there. With another order than
// FIFO a younger one may, unless nothing can come before this one: it has not run, so it has waited longest and needs least.
func (r *ranking) leads(oldest *work.Job, its rank) bool {
	bound := r.boundOf(oldest)
	return r.policy.Order == work.OrderFIFO || its.need == 0 && its.above == bound.above
}

// boundOf is before the ranks of the oldest job of a lane and priority and of all behind it, and before those of jobs
// elsewhere that are equally urgent.
func (r *ranking) boundOf(oldest *work.Job) rank {
	return rank{above: -int(oldest.Priority) - r.steps(r.now-oldest.CreatedAt), need: -1}
}

func (a rank) before(b rank) bool {
	switch {
	case a.above != b.above:
		return a.above < b.above
	case a.need != b.need:
		return a.need < b.need
	}
	return a.id.Older(b.id)
}

// aged is how many steps of priority a job's waiting is worth.
func (r *ranking) aged(j *work.Job) int {
	if r.policy.AgingStep <= 0 {
		return 0
	}
	return r.steps(r.waited(j))
}

// steps is how many steps of priority so much waiting is worth.
func (r *ranking) steps(waited int64) int {
	if r.policy.AgingStep <= 0 {
		return 0
	}
	return int(min(max(waited, 0)/r.policy.AgingStep, work.MaxAging))
}

// waited is how long a job has not run since it was submitted.
func (r *ranking) waited(j *work.Job) int64 { return r.now - j.CreatedAt - Attained(j, r.now) }

// need is what Policy.Order compares: GPU time, so that of two jobs of the same length the smaller one is first. It keeps
// less waiting behind it.
func (r *ranking) need(j *work.Job) float64 {
	switch r.policy.Order {
	case work.OrderShortest:
		return gpus(j) * float64(r.remaining(j))
	case work.OrderAttained:
		if j.Retries.Preempted == 0 && !j.Live() {
			return 0 // What it has lost by a failure is no reason to let others go first.
		}
		return gpus(j) * float64(Attained(j, r.now))
	}
	return 0
}

// remaining is how much longer a job is predicted to run. With the order ATTAINED nothing is learned from other jobs: a job
// is expected to go on for as long as it has run.
func (r *ranking) remaining(j *work.Job) int64 {
	ran := Attained(j, r.now)
	var left int64
	if r.policy.Order == work.OrderAttained {
		left = max(ran, r.policy.Preemption.Every)
	} else {
		left = r.model.Remaining(j, ran)
	}
	if j.MaxRuntime > 0 {
		left = min(left, max(j.MaxRuntime-ran, 1))
	}
	return left
}

// gpus is the size of a job. One without GPUs counts a thousandth, so that jobs of this kind are compared, too.
func gpus(j *work.Job) float64 { return math.Max(float64(j.Shape.GPUMilli()), 1) / 1000 }

// Attained is how long a job has run, all its attempts together.
func Attained(j *work.Job, now int64) int64 {
	var ran int64
	for i := range j.Past {
		if p := &j.Past[i]; p.StartedAt > 0 && p.EndedAt > p.StartedAt {
			ran += p.EndedAt - p.StartedAt
		}
	}
	switch {
	case j.StartedAt == 0 || !j.Live() && !j.Terminal():
		return ran
	case j.Terminal():
		return ran + max(j.FinishedAt-j.StartedAt, 0)
	}
	return ran + max(now-j.StartedAt, 0)
}
