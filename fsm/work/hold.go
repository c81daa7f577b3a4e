package work

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// standing says how a dependency stands.
type standing uint8

const (
	undecided standing = iota
	Met
	Unmeetable
)

// Judge says how a dependency stands, given the job depended on (nil: it was dropped long after its end).
func (d Dependency) Judge(on *Job) standing {
	switch {
	case on == nil:
		return Unmeetable
	case !on.Terminal():
		return undecided
	case d.When == AfterAny, (d.When == AfterOK) == (on.State == v1.JobState_SUCCEEDED):
		return Met
	}
	return Unmeetable
}

// heldUntil is when the next of the holds that time alone ends is over; 0: there is none.
func (j *Job) heldUntil() int64 {
	var at int64
	if j.Held&HoldNotBefore != 0 {
		at = j.NotBefore
	}
	if j.Held&HoldBackoff != 0 && (at == 0 || j.Streak.After < at) {
		at = j.Streak.After
	}
	return at
}

// Settles is when a hold of a recovery may end, if all nodes were heard of until then; 0: there is none.
func (j *Job) Settles() int64 {
	if j.Held&HoldRecovery == 0 {
		return 0
	}
	return j.SettlesAt
}

// Release ends the holds whose time has come.
func (j *Job) Release(now int64) {
	if j.NotBefore <= now {
		j.Held &^= HoldNotBefore
	}
	if j.Streak.After <= now {
		j.Held &^= HoldBackoff
	}
}

// HoldReason is the reason in the row of a job while it is held.
func HoldReason(j *Job) reason.Reason {
	switch {
	case j.Held&HoldUser != 0:
		if code := j.Reason.Code(); code == reason.HeldByUser || code == reason.HeldBecause {
			return j.Reason
		}
		return reason.New(reason.HeldByUser)
	case j.Held&HoldDependency != 0:
		return reason.New(reason.WaitsForJobs)
	case j.Held&HoldNotBefore != 0:
		return reason.New(reason.NotYetDue)
	case j.Held&HoldRecovery != 0:
		return reason.New(reason.HeldForRecovery)
	case j.Held&HoldBackoff != 0:
		return reason.New(reason.PausesBeforeRestart)
	}
	return ""
}

// Waiting says whether the scheduler may place the job, or an element of it.
func (j *Job) Waiting() bool {
	if j.Array != nil {
		return j.Held == 0 && j.offers()
	}
	return j.State == v1.JobState_QUEUED && j.Held == 0
}

// offers says whether elements of an array wait to be placed for the first time.
func (j *Job) offers() bool {
	return (j.State == v1.JobState_QUEUED || j.State == v1.JobState_RUNNING) &&
		j.Stop == v1.StopReason_UNSPECIFIED && len(j.Array.Waiting) > 0
}

// HeldBack says whether the job is queued and waits for its time, or for other jobs: the scheduler does not look at it.
func (j *Job) HeldBack() bool {
	if j.Array != nil {
		return j.Held != 0 && j.offers()
	}
	return j.State == v1.JobState_QUEUED && j.Held != 0
}

// Timer is when a Tick has something to do to the job; 0: never, as it is.
func (j *Job) Timer() int64 {
	switch {
	case j.State == v1.JobState_QUEUED:
		return j.heldUntil()
	case j.State == v1.JobState_RUNNING && j.Array == nil && j.MaxRuntime > 0 && j.Stop == v1.StopReason_UNSPECIFIED:
		return j.StartedAt + j.MaxRuntime - max(0, j.Notice)
	}
	return 0
}

// DefaultNotice is the notice before a time limit of a job that does not say: its grace period in whole seconds, at most
// half of the limit. Less than 0: none.
func DefaultNotice(limit, grace int64) int64 {
	const second = int64(1e9)
	if notice := min(grace, limit/2) / second * second; notice > 0 {
		return notice
	}
	return -1
}

func (j *Job) WaitsForOthers() bool {
	return j.State == v1.JobState_QUEUED && j.Held&HoldDependency != 0
}
