package scheduler

import (
	"math"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/scheduler/predict"
)

// ranking orders waiting jobs as the policy says, by their priority, age and history.
type ranking struct {
	policy policy.Policy
	now    int64
	model  *predict.Model
	// buf and one are buffers for jobs that are read.
	buf []*work.Job
	one [1]*work.Job
}

// rank is the position of a job in the order. Ranks are compared field by field; the lower one comes first.
type rank struct {
	above int // minus the priority after aging
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

// stratified reports whether the jobs of a lane are read priority by priority. Otherwise they are offered in the order
// of the state.
func (r *ranking) stratified() bool {
	return r.policy.AgingStep > 0 || r.policy.Order != policy.OrderFIFO
}

func (r *ranking) of(j *work.Job) rank {
	return rank{above: -int(j.Priority) - r.aged(j), need: r.need(j), id: j.ID}
}

// leads reports whether the oldest job of a lane and priority, which has the given rank, comes first among them. With
// an order other than FIFO a younger job may come first, unless the oldest has the lowest possible rank: its need is 0,
// and it has not run, so it has aged most.
func (r *ranking) leads(oldest *work.Job, its rank) bool {
	bound := r.boundOf(oldest)
	return r.policy.Order == policy.OrderFIFO || its.need == 0 && its.above == bound.above
}

// boundOf returns a rank that is before those of the oldest job of a lane and priority, of all jobs that follow it
// there, and of equally urgent jobs elsewhere.
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

// aged returns the number of priorities by which a job has risen while it waited.
func (r *ranking) aged(j *work.Job) int {
	if r.policy.AgingStep <= 0 {
		return 0
	}
	return r.steps(r.waited(j))
}

// steps returns the number of priorities by which a job rises when it waits for so long.
func (r *ranking) steps(waited int64) int {
	if r.policy.AgingStep <= 0 {
		return 0
	}
	return int(min(max(waited, 0)/r.policy.AgingStep, policy.MaxAging))
}

// waited returns how long a job has waited since it was submitted: the time in which it did not run.
func (r *ranking) waited(j *work.Job) int64 { return r.now - j.CreatedAt - Attained(j, r.now) }

// need returns the GPU time that Policy.Order compares. It is not only the duration: of two jobs of the same length the
// smaller one comes first, because it delays others less.
func (r *ranking) need(j *work.Job) float64 {
	switch r.policy.Order {
	case policy.OrderShortest:
		return gpus(j) * float64(r.remaining(j))
	case policy.OrderAttained:
		if j.Retries.Preempted == 0 && !j.Live() {
			return 0 // Time lost by a failure does not count against the job.
		}
		return gpus(j) * float64(Attained(j, r.now))
	}
	return 0
}

// remaining predicts how much longer a job runs. With the order ATTAINED the model is not used: a job is expected to
// run for as long again as it has run.
func (r *ranking) remaining(j *work.Job) int64 {
	ran := Attained(j, r.now)
	var left int64
	if r.policy.Order == policy.OrderAttained {
		left = max(ran, r.policy.Preemption.Every)
	} else {
		left = r.model.Remaining(j, ran)
	}
	if j.MaxRuntime > 0 {
		left = min(left, max(j.MaxRuntime-ran, 1))
	}
	return left
}

// gpus returns the number of GPUs of a job. A job without GPUs counts as a thousandth of one, so that such jobs can be
// compared.
func gpus(j *work.Job) float64 { return math.Max(float64(j.Shape.GPUMilli()), 1) / 1000 }

// Attained returns how long a job has run, all its attempts together.
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
