package order

import (
	"math"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/scheduler/predict"
)

// Ranking orders waiting jobs as the policy says, by their priority, age and history.
type Ranking struct {
	Policy policy.Policy
	// Now is the time of the view, in Unix nanoseconds.
	Now   int64
	model *predict.Model
	// buf and one are buffers for jobs that are read.
	buf []*work.Job
	one [1]*work.Job
}

// Rank is the position of a job in the order. Ranks are compared field by field; the lower one comes first.
type Rank struct {
	// Above is minus the priority after aging.
	Above int
	need  float64
	id    ident.Job
}

// NewRanking returns the ranking by the policy and the time of a view. model predicts durations for the order SHORTEST;
// nil: there is no data for predictions.
func NewRanking(v View, model *predict.Model) *Ranking {
	r := &Ranking{Policy: v.Policy(), Now: v.Now(), model: model}
	if r.model == nil {
		r.model = &predict.Model{}
	}
	return r
}

// stratified reports whether the jobs of a lane are read priority by priority. Otherwise they are offered in the order
// of the state.
func (r *Ranking) stratified() bool {
	return r.Policy.AgingStep > 0 || r.Policy.Order != policy.OrderFIFO
}

// Of returns the rank of a job.
func (r *Ranking) Of(j *work.Job) Rank {
	return Rank{Above: -int(j.Priority) - r.aged(j), need: r.need(j), id: j.ID}
}

// oldest is the oldest job of a lane and priority, with what its rank mostly depends on: to read that from the row takes
// the most time of a pass in which many lanes are opened and few jobs placed.
type oldest struct {
	*work.Job
	id       ident.Job
	created  int64
	priority uint8
	// fresh: it has never run, so the rank needs no more unless the policy predicts durations.
	fresh bool
}

func oldestJob(j *work.Job) oldest {
	fresh := len(j.Past) == 0 && j.StartedAt == 0 && j.Retries.Preempted == 0 && !j.Live()
	return oldest{j, j.ID, j.CreatedAt, j.Priority, fresh}
}

// ofOldest returns the rank of the oldest job of a lane and priority, and a rank that is before those of this job, of all
// jobs that follow it there, and of equally urgent jobs elsewhere.
func (r *Ranking) ofOldest(j *oldest) (its, bound Rank) {
	bound = Rank{Above: -int(j.priority) - r.steps(r.Now-j.created), need: -1}
	if j.fresh && r.Policy.Order != policy.OrderShortest {
		return Rank{Above: bound.Above, id: j.id}, bound
	}
	return r.Of(j.Job), bound
}

// leads reports whether the oldest job of a lane and priority, which has the given rank, comes first among them. With
// an order other than FIFO a younger job may come first, unless the oldest has the lowest possible rank, which bound is:
// its need is 0, and it has not run, so it has aged most.
func (r *Ranking) leads(its, bound Rank) bool {
	return r.Policy.Order == policy.OrderFIFO || its.need == 0 && its.Above == bound.Above
}

func (a Rank) before(b Rank) bool {
	switch {
	case a.Above != b.Above:
		return a.Above < b.Above
	case a.need != b.need:
		return a.need < b.need
	}
	return a.id.Older(b.id)
}

// aged returns the number of priorities by which a job has risen while it waited.
func (r *Ranking) aged(j *work.Job) int {
	if r.Policy.AgingStep <= 0 {
		return 0
	}
	return r.steps(r.Waited(j))
}

// steps returns the number of priorities by which a job rises when it waits for so long.
func (r *Ranking) steps(waited int64) int {
	if r.Policy.AgingStep <= 0 {
		return 0
	}
	return int(min(max(waited, 0)/r.Policy.AgingStep, policy.MaxAging))
}

// Waited returns how long a job has waited since it was submitted: the time in which it did not run.
func (r *Ranking) Waited(j *work.Job) int64 { return r.Now - j.CreatedAt - Attained(j, r.Now) }

// need returns the GPU time that Policy.Order compares. It is not only the duration: of two jobs of the same length the
// smaller one comes first, because it delays others less.
func (r *Ranking) need(j *work.Job) float64 {
	switch r.Policy.Order {
	case policy.OrderShortest:
		return gpus(j) * float64(r.Remaining(j))
	case policy.OrderAttained:
		if j.Retries.Preempted == 0 && !j.Live() {
			return 0 // Time lost by a failure does not count against the job.
		}
		return gpus(j) * float64(Attained(j, r.Now))
	}
	return 0
}

// Remaining predicts how much longer a job runs. With the order ATTAINED the model is not used: a job is expected to
// run for as long again as it has run.
func (r *Ranking) Remaining(j *work.Job) int64 {
	ran := Attained(j, r.Now)
	var left int64
	if r.Policy.Order == policy.OrderAttained {
		left = max(ran, r.Policy.Preemption.Every)
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
