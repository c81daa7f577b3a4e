package jobview

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Phase is the phase of a job as users see it: the main work of an evaluation is to evaluate.
func Phase(j *work.Job) v1.JobPhase_Value { return PhaseShown(j.Phase, j.Evaluation()) }

// PhaseShown is the same of a job that is known by its group only.
func PhaseShown(phase v1.JobPhase_Value, evaluation bool) v1.JobPhase_Value {
	if phase == v1.JobPhase_TRAINING && evaluation {
		return v1.JobPhase_EVALUATING
	}
	return phase
}

// Status is the status that a job shows.
func Status(v *fsm.View, j *work.Job) v1.JobStatus_Value {
	return status.Of(j.State, Phase(j), Considered(v, j))
}

// Considered says whether a scheduler pass has looked at the job.
func Considered(v *fsm.View, j *work.Job) bool {
	return j.Attempt > 0 || j.Created <= v.Considered()
}

// InWords writes what the state says of jobs in the words of their status.
func InWords(v *fsm.View, text string) string {
	return status.InWords(text, func(job string, state v1.JobState_Value) v1.JobStatus_Value {
		id, _ := ident.ParseJob(job)
		j, ok := v.Find(id)
		if ok && j.State == state {
			return Status(v, j)
		}
		return StatusIn(j, state)
	})
}

// StatusIn is what a job showed in a state that it need not be in any more. Whatever phase it was in is forgotten; an
// evaluation evaluates. j may be nil: it was dropped.
func StatusIn(j *work.Job, state v1.JobState_Value) v1.JobStatus_Value {
	phase := v1.JobPhase_TRAINING
	if j != nil && j.Evaluation() {
		phase = v1.JobPhase_EVALUATING
	}
	return status.Of(state, phase, true)
}
