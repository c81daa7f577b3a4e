package term

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/predict"
)

// learning has the leader's model of the durations of jobs. A new leader learns it from the jobs in the state; after
// that each job that succeeds adds to it. It affects only the order of jobs, so two leaders need not have the same
// model.
type learning struct {
	model *predict.Model
}

// of returns the model if the policy uses one; nil otherwise.
func (l *learning) of(v *fsm.View) *predict.Model {
	if p := v.Policy(); p.Order != policy.OrderShortest && !p.Preemption.Enabled {
		l.model = nil
		return nil
	}
	if l.model == nil {
		l.model = &predict.Model{}
		for j := range v.Jobs(false, 0) {
			l.learn(j)
		}
	}
	return l.model
}

// ended adds jobs that ended since the last call.
func (l *learning) ended(v *fsm.View, ids []ident.Job) {
	if l.model == nil {
		return
	}
	for _, id := range ids {
		if j, ok := v.Job(id); ok {
			l.learn(j)
		}
	}
}

// learn adds a job that ran to its end.
func (l *learning) learn(j *work.Job) {
	if j.State == v1.JobState_SUCCEEDED {
		l.model.Learn(j, order.Attained(j, j.FinishedAt))
	}
}
