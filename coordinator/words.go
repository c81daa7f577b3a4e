package coordinator

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm"
)

// inWords writes what the state says of jobs in the words of their status.
func inWords(v *fsm.View, text string) string {
	return status.InWords(text, func(job string, state v1.JobState_Value) v1.JobStatus_Value {
		id, _ := fsm.ParseJobID(job)
		j, ok := v.Job(id)
		if ok && j.State == state {
			return statusOf(v, j)
		}
		return statusIn(j, state)
	})
}

// statusIn is what a job showed in a state that it need not be in any more. Whatever phase it was in is forgotten; an
// evaluation evaluates. j may be nil: it was dropped.
func statusIn(j *fsm.Job, state v1.JobState_Value) v1.JobStatus_Value {
	phase := v1.JobPhase_TRAINING
	if j != nil && j.Evaluation() {
		phase = v1.JobPhase_EVALUATING
	}
	return status.Of(state, phase, true)
}
