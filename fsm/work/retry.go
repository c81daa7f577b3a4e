package work

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// RetryCause is a set of causes after which an attempt may be repeated.
type RetryCause uint8

// The causes. All but RetryExit are the infrastructure's.
const (
	RetryNodeLost RetryCause = 1 << iota
	RetryGPUFault
	RetryLaunchFailed
	RetryDataFetch
	RetryExit

	// RetryInfrastructure is every cause but the exit of the job's own process.
	RetryInfrastructure = RetryNodeLost | RetryGPUFault | RetryLaunchFailed | RetryDataFetch
	// RetryAll is the meaning of an absent retry_on.
	RetryAll = RetryInfrastructure | RetryExit
)

// RetryPolicy says after what a job is restarted, and how often.
type RetryPolicy struct {
	// Max bounds the restarts that count.
	Max uint16     `cbor:"1,keyasint,omitempty"`
	On  RetryCause `cbor:"2,keyasint,omitempty"`
	// Never: no attempt follows another, whatever ended it, unless a user says so.
	Never bool `cbor:"3,keyasint,omitempty"`
}

// RetryCounts has one counter per cause.
type RetryCounts struct {
	NodeLost     uint32 `cbor:"1,keyasint,omitempty"`
	GPUFault     uint32 `cbor:"2,keyasint,omitempty"`
	LaunchFailed uint32 `cbor:"3,keyasint,omitempty"`
	DataFetch    uint32 `cbor:"4,keyasint,omitempty"`
	Exit         uint32 `cbor:"5,keyasint,omitempty"`
	Preempted    uint32 `cbor:"6,keyasint,omitempty"`
	Drained      uint32 `cbor:"7,keyasint,omitempty"`
}

// Spent is how many of the restarts that RetryPolicy.Max bounds are used up.
func (j *Job) Spent() uint32 {
	return j.Retries.Exit
}

// RetryLeft says whether an attempt that ends by cause would be followed by another one. (One that brings nothing new may be
// the last all the same: see MaxFruitless.) For RetryNodeLost the answer is the same for all of the life of an attempt.
func (j *Job) RetryLeft(cause RetryCause) bool {
	switch {
	case j.Retry.Never, j.Retry.On&cause == 0:
		return false
	case cause != RetryExit:
		return true
	}
	return j.Spent() < uint32(j.Retry.Max)
}

// Streak counts consecutive failed attempts of a job without progress, since it was submitted or a user retried it.
type Streak struct {
	// Restarts in a row, each after an attempt that failed and lasted for less than steadyAfter.
	Restarts uint32 `cbor:"1,keyasint,omitempty"`
	// Fruitless is how many attempts in a row failed without a new checkpoint, and without a step beyond all before.
	Fruitless uint32 `cbor:"2,keyasint,omitempty"`
	// After is when the next attempt may start, Unix nanoseconds; 0: at once.
	After int64 `cbor:"3,keyasint,omitempty"`
	// Best is the highest step that any attempt has reported.
	Best int64 `cbor:"4,keyasint,omitempty"`
	// Gained: the newest attempt has saved a checkpoint, or got beyond Best.
	Gained bool `cbor:"5,keyasint,omitempty"`
}

const (
	// MaxFruitless attempts in a row that bring nothing new end a job with NO_PROGRESS.
	MaxFruitless = 3
	// The pause before a restart: none before the first in a row, firstPause before the second, then twice as long each
	// time, up to LongestPause.
	firstPause   = 10 * 1e9
	LongestPause = 5 * 60 * 1e9
	// steadyAfter is how long an attempt must have run for the restarts before it to be forgotten: twice the longest pause.
	SteadyAfter = 2 * LongestPause
)

// Pause is how long the next restart waits after so many in a row.
func (s *Streak) Pause() int64 {
	if s.Restarts == 0 {
		return 0
	}
	pause := int64(firstPause)
	for n := uint32(1); n < s.Restarts && pause < LongestPause; n++ {
		pause *= 2
	}
	return min(pause, LongestPause)
}

// Again counts a restart, and returns how long it waits.
func (s *Streak) Again(now int64) (pause int64) {
	if pause = s.Pause(); pause > 0 {
		s.After = now + pause
	} else {
		s.After = 0
	}
	s.Restarts++
	return pause
}

// Reached takes down that an attempt has come to a step.
func (s *Streak) Reached(step int64) {
	if step > s.Best {
		s.Best, s.Gained = step, true
	}
}

// CauseOf says against which of the causes an error counts; 0: nothing is retried after it.
func CauseOf(e v1.ErrorType_Value) RetryCause {
	switch e {
	case v1.ErrorType_NODE_LOST:
		return RetryNodeLost
	case v1.ErrorType_GPU_FAULT:
		return RetryGPUFault
	case v1.ErrorType_LAUNCH_FAILED, v1.ErrorType_NODE_UNFIT:
		return RetryLaunchFailed
	case v1.ErrorType_DATA_FETCH, v1.ErrorType_MODEL_NOT_FOUND: // what one node lacks another may have
		return RetryDataFetch
	case v1.ErrorType_EXIT_NONZERO, v1.ErrorType_OOM:
		return RetryExit
	}
	return 0
}

// Own says whether the program of a job found the error itself, in what it was asked to do: no other node would help.
func (e *Ending) Own() bool {
	switch e.ErrorType {
	case v1.ErrorType_DATA_FORMAT, v1.ErrorType_CONFIG, v1.ErrorType_DIVERGED:
		return true
	case v1.ErrorType_MODEL_NOT_FOUND: // without an exit code it was the node that did not find it, and nothing was started
		return e.ExitCode != nil
	}
	return false
}

func (c *RetryCounts) Add(cause RetryCause) {
	switch cause {
	case RetryNodeLost:
		c.NodeLost++
	case RetryGPUFault:
		c.GPUFault++
	case RetryLaunchFailed:
		c.LaunchFailed++
	case RetryDataFetch:
		c.DataFetch++
	case RetryExit:
		c.Exit++
	}
}
