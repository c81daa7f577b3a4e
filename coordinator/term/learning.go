package term

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/predict"
)

// learning is what the leader knows of how long jobs take. A new leader learns it from the jobs that are kept; after that
// each job that ends adds to it. It decides about the order of jobs, so nothing depends on two leaders knowing the same.
type learning struct {
	model *predict.Model
}

// of returns the model, if the policy has a use for it.
func (l *learning) of(v *fsm.View) *predict.Model {
	if p := v.Policy(); p.Order != work.OrderShortest && !p.Preemption.Enabled {
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
		l.model.Learn(j, scheduler.Attained(j, j.FinishedAt))
	}
}
