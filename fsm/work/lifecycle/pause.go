package lifecycle

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

func OrElse(said reason.Reason, otherwise reason.Code) reason.Reason {
	if said == "" {
		return reason.New(otherwise)
	}
	return said
}

func (tx *Tx) Pause(j *work.Job, why reason.Reason, save bool) *kernel.Refusal {
	why = OrElse(why, reason.PausedByUser)
	switch {
	case j.Live() && j.GoOn:
		j.GoOn, j.Reason = false, why // Its attempt is still being stopped for an earlier pause.
		return nil
	case j.State == v1.JobState_PAUSED || j.Live() && j.Stop == v1.StopReason_PAUSE:
		return nil
	case j.State == v1.JobState_QUEUED:
		j.Held, j.SettlesAt = 0, 0
		tx.Move(j, v1.JobState_PAUSED, why)
		return nil
	case !j.Live():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotPause, j.ID, j.State)
	case j.Stop == v1.StopReason_CANCEL:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.BeingCanceled, j.ID)
	case j.Ending != nil || j.Stop == v1.StopReason_TIME_LIMIT:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.AttemptEnding, j.ID, j.Reason)
	}
	grace := j.Grace
	if !save {
		grace = 0
	}
	tx.AskToStop(j, v1.StopReason_PAUSE, grace, why)
	return nil
}
