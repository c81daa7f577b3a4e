package apply

import (
	"fmt"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
)

// afterFailure decides what follows an attempt that failed and that nobody asked to stop: another attempt, or the end.
func (tx *tx) afterFailure(j *work.Job, ending *work.Ending) {
	cause := work.CauseOf(ending.ErrorType)
	lost := ending.ErrorType == v1.ErrorType_NODE_LOST
	end := v1.JobState_FAILED
	if lost {
		end = v1.JobState_LOST
	}
	if !j.RetryLeft(cause) {
		tx.fail(j, end, ending)
		return
	}
	if j.RetryRules == work.AllCausesCount {
		j.Retries.Add(cause)
		why := fmt.Sprintf("retry %d of %d after %s", j.Spent(), j.Retry.Max, ending.Text())
		if lost {
			tx.move(j, v1.JobState_LOST, ending.Text())
		}
		tx.requeue(j, ending, why)
		return
	}
	if tx.agreed(j, ending) {
		tx.fail(j, end, ending)
		return
	}
	s := &j.Streak
	if s.Gained {
		s.Fruitless = 0
	} else if s.Fruitless++; s.Fruitless >= work.MaxFruitless {
		tx.fail(j, v1.JobState_FAILED, &work.Ending{
			Rank: ending.Rank, Node: ending.Node, ExitCode: ending.ExitCode, ErrorType: v1.ErrorType_NO_PROGRESS, Loss: ending.Loss,
			ErrorMessage: fmt.Sprintf("%d attempts in a row saved no checkpoint and reported no new step; the last one ended with %s", s.Fruitless, ending.Text()),
		})
		return
	}
	j.Retries.Add(cause)
	if j.StartedAt != 0 && tx.now-j.StartedAt >= work.SteadyAfter {
		s.Restarts = 0
	}
	pause := s.Pause()
	s.Restarts++
	s.After = 0
	why := "restarted"
	if pause > 0 && cause != work.RetryLaunchFailed {
		s.After = tx.now + pause
		why = fmt.Sprintf("restarts in %d s", pause/1e9)
	}
	if cause == work.RetryExit {
		why += fmt.Sprintf(" (retry %d of %d)", j.Spent(), j.Retry.Max)
	}
	if lost {
		tx.move(j, v1.JobState_LOST, ending.Text())
	}
	tx.requeue(j, ending, why+" after "+ending.Text())
}

// agreed says whether a launch that failed would fail everywhere: another node said the same of the attempt before, or
// there is no other node to ask. A program that the request names and that is nowhere is a mistake in the request; one that
// is missing on one node is a fault of that node.
func (tx *tx) agreed(j *work.Job, e *work.Ending) bool {
	if e.ErrorType != v1.ErrorType_LAUNCH_FAILED && e.ErrorType != v1.ErrorType_MODEL_NOT_FOUND {
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
func (tx *tx) stopsForGood(j *work.Job, why v1.ErrorType_Value, text string) bool {
	if !j.Retry.Never {
		return false
	}
	tx.fail(j, v1.JobState_PREEMPTED, &work.Ending{ErrorType: why, ErrorMessage: text + ", and the job is not restartable"})
	return true
}
