package lifecycle

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// afterFailure decides what follows an attempt that failed and that nobody asked to stop: another attempt, or the end.
func (tx *Tx) afterFailure(j *work.Job, ending *work.Ending) {
	cause, own := work.CauseOf(ending.ErrorType), ending.Own()
	if own {
		cause = work.RetryExit
	}
	lost := ending.ErrorType == v1.ErrorType_NODE_LOST
	end := v1.JobState_FAILED
	if lost {
		end = v1.JobState_LOST
	}
	if !j.RetryLeft(cause) {
		tx.fail(j, end, ending)
		return
	}
	if !own && tx.agreed(j, ending) {
		tx.fail(j, end, ending)
		return
	}
	s := &j.Streak
	if s.Gained {
		s.Fruitless = 0
	} else if s.Fruitless++; s.Fruitless >= work.MaxFruitless {
		tx.fail(j, v1.JobState_FAILED, &work.Ending{
			Rank: ending.Rank, Node: ending.Node, ExitCode: ending.ExitCode, ErrorType: v1.ErrorType_NO_PROGRESS, Loss: ending.Loss,
			ErrorMessage: reason.New(reason.NoProgress, s.Fruitless, ending.Why()),
		})
		return
	}
	j.Retries.Add(cause)
	if j.StartedAt != 0 && tx.Now-j.StartedAt >= work.SteadyAfter {
		s.Restarts = 0
	}
	pause := s.Pause()
	s.Restarts++
	s.After = 0
	var why reason.Reason
	later := pause > 0 && cause != work.RetryLaunchFailed
	if later {
		s.After = tx.Now + pause
	}
	switch counts := cause == work.RetryExit; {
	case later && counts:
		why = reason.New(reason.RestartsInAsRetry, pause/1e9, j.Spent(), j.Retry.Max, ending.Why())
	case later:
		why = reason.New(reason.RestartsInAfter, pause/1e9, ending.Why())
	case counts:
		why = reason.New(reason.RestartedAsRetry, j.Spent(), j.Retry.Max, ending.Why())
	default:
		why = reason.New(reason.RestartedAfter, ending.Why())
	}
	if lost {
		tx.Move(j, v1.JobState_LOST, ending.Why())
	}
	tx.Requeue(j, ending, why)
	tx.holdPlaces(j, ending)
}

// unfit requeues a job whose node could not start a task of it. That costs the job nothing, however often it happens: no
// retry, and no attempt without progress. Later attempts wait longer, and other nodes are preferred. false: the job must not
// be started twice, and another task of the attempt has run.
func (tx *Tx) unfit(j *work.Job, ending *work.Ending) bool {
	if j.Retry.Never && slices.ContainsFunc(j.Tasks, func(t work.Task) bool { return t.Ran() }) {
		return false
	}
	j.Retries.LaunchFailed++
	why := reason.New(reason.RestartedAfter, ending.Why())
	if pause := j.Streak.Again(tx.Now); pause > 0 {
		why = reason.New(reason.RestartsInAfter, pause/1e9, ending.Why())
	}
	tx.Requeue(j, ending, why)
	tx.holdPlaces(j, ending)
	return true
}

// agreed says whether a launch that failed would fail everywhere: another node said the same of the attempt before, or
// there is no other node to ask. A program, a model or data that the request names and that is nowhere is a mistake in the
// request; what is missing on one node is a fault of that node.
func (tx *Tx) agreed(j *work.Job, e *work.Ending) bool {
	switch e.ErrorType {
	case v1.ErrorType_LAUNCH_FAILED, v1.ErrorType_MODEL_NOT_FOUND:
	case v1.ErrorType_DATA_FETCH:
		// A job that reached a step had its data then: the source is only out of reach.
		if j.Streak.Best > 0 {
			return false
		}
	default:
		return false
	}
	if n := len(j.Past); n > 0 {
		if p := &j.Past[n-1]; p.ErrorType == e.ErrorType && p.FailedNode != e.Node && p.Attempt > j.RetriedAt {
			return true
		}
	}
	others := 0
	for n := range tx.Nodes() {
		if n.ID != e.Node && !j.Avoids(n.ID) && n.CouldHold(j.Shape) {
			others++
		}
	}
	return others < int(j.Shape.Nodes)
}

// stopsForGood ends a job that the cluster stopped and that is not to be restarted; false: it may go on.
func (tx *Tx) stopsForGood(j *work.Job, cause v1.ErrorType_Value, why reason.Code) bool {
	if !j.Retry.Never {
		return false
	}
	tx.fail(j, v1.JobState_PREEMPTED, &work.Ending{ErrorType: cause, ErrorMessage: reason.New(why)})
	return true
}
