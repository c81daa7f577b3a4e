package jobview

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Phase returns the phase of a job as users see it: an evaluation is evaluating, not training.
func Phase(j *work.Job) v1.JobPhase_Value { return PhaseShown(j.Phase, j.Evaluation()) }

// PhaseShown is Phase for a phase of jobs or of evaluations.
func PhaseShown(phase v1.JobPhase_Value, evaluation bool) v1.JobPhase_Value {
	if phase == v1.JobPhase_TRAINING && evaluation {
		return v1.JobPhase_EVALUATING
	}
	return phase
}

// Status returns the status of a job.
func Status(v *fsm.View, j *work.Job) v1.JobStatus_Value {
	return status.Of(j.State, Phase(j), Considered(v, j))
}

// Considered reports whether a scheduler pass has considered the job.
func Considered(v *fsm.View, j *work.Job) bool {
	return j.Attempt > 0 || j.Created <= v.Considered()
}

// InWords replaces the names of job states in a text by the names of the statuses that users see.
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

// StatusIn returns the status that a job had in a state, which may be a past one. The past phase is unknown, so it
// assumes TRAINING, or EVALUATING for an evaluation. j may be nil if the job was removed.
func StatusIn(j *work.Job, state v1.JobState_Value) v1.JobStatus_Value {
	phase := v1.JobPhase_TRAINING
	if j != nil && j.Evaluation() {
		phase = v1.JobPhase_EVALUATING
	}
	return status.Of(state, phase, true)
}
