package jobview

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
)

// arrayView counts the elements of an array; nil: the job is no array.
func arrayView(j *work.Job) *v1.JobArray {
	a := j.Array
	if a == nil {
		return nil
	}
	r, waiting, paused := &a.Rows, a.Waiting.Len(), 0
	if j.State == v1.JobState_PAUSED {
		waiting, paused = 0, waiting
	}
	return &v1.JobArray{
		Start: int32(a.Start), End: int32(a.End), MaxParallel: int32(j.MaxParallel),
		Waiting: int32(waiting + int(r.Queued)), Running: int32(r.Live), Paused: int32(paused + int(r.Paused)),
		Succeeded: int32(a.Succeeded.Len() + int(r.Succeeded)), Failed: int32(a.GoneFailed() + int(r.Failed)),
		Canceled: int32(a.Canceled.Len() + int(r.Canceled)),
	}
}
