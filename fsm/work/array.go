package work

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work/ranges"
)

// Array is the elements of an array: which wait, and the results of those that are over. An element is a job with a row of
// its own from its first placement until some time after its end; the sets have those without one. So an array costs one
// row, however many elements wait or have ended.
type Array struct {
	Start uint32 `cbor:"1,keyasint,omitempty"`
	End   uint32 `cbor:"2,keyasint,omitempty"`
	// Waiting are those that were not placed yet.
	Waiting ranges.Set `cbor:"3,keyasint,omitempty"`
	// Succeeded, Canceled and Failed have no row any more.
	Succeeded ranges.Set       `cbor:"4,keyasint,omitempty"`
	Canceled  ranges.Set       `cbor:"5,keyasint,omitempty"`
	Failed    []FailedElements `cbor:"6,keyasint,omitempty"`
	Rows      ElementsWithARow `cbor:"7,keyasint,omitempty"`
	// Attempts is the highest number that an attempt of an element has had whose row is gone. The attempts of those that are
	// tried again begin after Base, so that no two attempts of an element have the same number.
	Attempts uint32 `cbor:"8,keyasint,omitempty"`
	Base     uint32 `cbor:"9,keyasint,omitempty"`
}

// FailedElements ended alike, without success.
type FailedElements struct {
	ErrorType v1.ErrorType_Value `cbor:"1,keyasint,omitempty"`
	ExitCode  *int32             `cbor:"2,keyasint,omitempty"`
	Elements  ranges.Set         `cbor:"3,keyasint,omitempty"`
}

// ElementsWithARow counts the elements that have a row.
type ElementsWithARow struct {
	// Queued are those that wait for another attempt; Live have leases.
	Queued    uint32 `cbor:"1,keyasint,omitempty"`
	Live      uint32 `cbor:"2,keyasint,omitempty"`
	Paused    uint32 `cbor:"3,keyasint,omitempty"`
	Succeeded uint32 `cbor:"4,keyasint,omitempty"`
	Failed    uint32 `cbor:"5,keyasint,omitempty"`
	Canceled  uint32 `cbor:"6,keyasint,omitempty"`
}

// Bounds on what an array keeps of elements that are over, beside those with checkpoints: the newest ones.
const (
	KeptFailedElements = 1000
	KeptOtherElements  = 100
)

// MakeArray is an array of which nothing has run.
func MakeArray(start, end uint32) *Array {
	return &Array{Start: start, End: end, Waiting: ranges.Set{{First: start, Last: end}}}
}

// Size is the number of elements.
func (a *Array) Size() int { return int(a.End-a.Start) + 1 }

// Has says whether there is an element of a number.
func (a *Array) Has(n uint32) bool { return a.Start <= n && n <= a.End }

// Unfinished is how many elements are not over.
func (a *Array) Unfinished() int {
	return a.Waiting.Len() + int(a.Rows.Queued+a.Rows.Live+a.Rows.Paused)
}

// GoneFailed is how many elements failed and have no row any more.
func (a *Array) GoneFailed() int {
	n := 0
	for i := range a.Failed {
		n += a.Failed[i].Elements.Len()
	}
	return n
}

// AnyFailed says whether an element has failed and was not tried again.
func (a *Array) AnyFailed() bool { return a.Rows.Failed > 0 || len(a.Failed) > 0 }

// Clone is a copy that may be changed.
func (a *Array) Clone() *Array {
	c := *a
	c.Waiting, c.Succeeded, c.Canceled = slices.Clone(a.Waiting), slices.Clone(a.Succeeded), slices.Clone(a.Canceled)
	c.Failed = slices.Clone(a.Failed)
	for i := range c.Failed {
		c.Failed[i].Elements = slices.Clone(c.Failed[i].Elements)
	}
	return &c
}

// Count counts an element whose new row is j, or (by -1) whose old row was.
func (c *ElementsWithARow) Count(j *Job, by int32) {
	at := &c.Failed
	switch {
	case j.State == v1.JobState_QUEUED:
		at = &c.Queued
	case j.Live():
		at = &c.Live
	case j.State == v1.JobState_PAUSED:
		at = &c.Paused
	case j.State == v1.JobState_SUCCEEDED:
		at = &c.Succeeded
	case j.State == v1.JobState_CANCELED:
		at = &c.Canceled
	}
	*at += uint32(by)
}

// Fold records the end of an element whose row goes. The array must be a copy of its own.
func (a *Array) Fold(j *Job) {
	_, n, _ := j.ID.Element()
	a.Rows.Count(j, -1)
	a.Attempts = max(a.Attempts, j.Attempt)
	switch j.State {
	case v1.JobState_SUCCEEDED:
		a.Succeeded = a.Succeeded.With(n)
		return
	case v1.JobState_CANCELED:
		a.Canceled = a.Canceled.With(n)
		return
	}
	for i := range a.Failed {
		if f := &a.Failed[i]; f.ErrorType == j.ErrorType && sameCode(f.ExitCode, j.ExitCode) {
			f.Elements = f.Elements.With(n)
			return
		}
	}
	a.Failed = append(a.Failed, FailedElements{ErrorType: j.ErrorType, ExitCode: j.ExitCode, Elements: ranges.Set{{First: n, Last: n}}})
}

func sameCode(a, b *int32) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// Again makes an element that is over and has no row wait; false: it did not end without success. The array must be a copy
// of its own.
func (a *Array) Again(n uint32) bool {
	switch {
	case a.Canceled.Has(n):
		a.Canceled = a.Canceled.Without(n)
	default:
		i := slices.IndexFunc(a.Failed, func(f FailedElements) bool { return f.Elements.Has(n) })
		if i < 0 {
			return false
		}
		if a.Failed[i].Elements = a.Failed[i].Elements.Without(n); len(a.Failed[i].Elements) == 0 {
			a.Failed = slices.Delete(a.Failed, i, i+1)
		}
	}
	a.Waiting, a.Base = a.Waiting.With(n), a.Attempts
	return true
}

// Element returns the row of an element that begins to wait.
func (j *Job) Element(n uint32) *Job {
	e := *j
	e.ID, e.Array, e.Notices = j.ID.At(n), nil, nil
	e.State, e.Phase, e.Held, e.SettlesAt, e.Reason = v1.JobState_QUEUED, 0, 0, 0, ""
	e.Attempt, e.Token = j.Array.Base, 0
	e.Stop, e.StopGrace = 0, 0
	e.ExitCode, e.ErrorType, e.ErrorMessage = nil, 0, ""
	e.NotBefore, e.Dependencies = 0, nil
	e.StartedAt, e.FinishedAt = 0, 0
	return &e
}

// ElementWithoutARow is an element as it would be if it had a row; nil: it has one, or there is no such element.
func (j *Job) ElementWithoutARow(n uint32) *Job {
	a := j.Array
	if a == nil || !a.Has(n) {
		return nil
	}
	e := j.Element(n)
	switch {
	case a.Waiting.Has(n):
		e.Held, e.SettlesAt, e.NotBefore, e.Dependencies, e.Reason = j.Held, j.SettlesAt, j.NotBefore, j.Dependencies, j.Reason
		if j.State == v1.JobState_PAUSED {
			e.State = v1.JobState_PAUSED
		}
		return e
	case a.Succeeded.Has(n):
		e.State, e.ExitCode = v1.JobState_SUCCEEDED, new(int32)
	case a.Canceled.Has(n):
		e.State = v1.JobState_CANCELED
	default:
		i := slices.IndexFunc(a.Failed, func(f FailedElements) bool { return f.Elements.Has(n) })
		if i < 0 {
			return nil
		}
		e.State, e.ErrorType, e.ExitCode = v1.JobState_FAILED, a.Failed[i].ErrorType, a.Failed[i].ExitCode
	}
	// Which attempt was its last is no longer known; of most arrays all elements have had one.
	e.Credentials, e.Attempt = nil, a.Attempts
	return e
}

// Places is how many jobs wait in the place of this row: the elements of an array.
func (j *Job) Places() int {
	if j.Array != nil {
		return j.Array.Waiting.Len()
	}
	return 1
}

// Tally adds a row to counts of jobs, by times. An array counts as its elements that have no row. held is how many of them
// are queued and held back.
func (j *Job) Tally(counts *Counts, by int) (held int) {
	if a := j.Array; a != nil {
		waiting := by * a.Waiting.Len()
		state := v1.JobState_QUEUED
		if j.State == v1.JobState_PAUSED {
			state = v1.JobState_PAUSED
		}
		counts[state] += waiting
		counts[v1.JobState_SUCCEEDED] += by * a.Succeeded.Len()
		counts[v1.JobState_CANCELED] += by * a.Canceled.Len()
		counts[v1.JobState_FAILED] += by * a.GoneFailed()
		if j.HeldBack() {
			held = waiting
		}
		return held
	}
	counts[j.State&15] += by
	if j.HeldBack() {
		held = by
	}
	return held
}

// Submission says whether a row is something that was submitted: not an element, which belongs to its array.
func (j *Job) Submission() bool {
	_, _, element := j.ID.Element()
	return !element
}

// Foldable says whether the row of an element may go: it is over, nothing waits to hear of it, and nothing belongs to it.
func (j *Job) Foldable() bool {
	_, _, element := j.ID.Element()
	return element && j.Terminal() && !j.Keep && len(j.Awaits) == 0
}

func (a *Array) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(a.Start)<<32 | uint64(a.End))
	f = a.Canceled.AppendFields(a.Succeeded.AppendFields(a.Waiting.AppendFields(f)))
	f = f.Num(uint64(len(a.Failed)))
	for i := range a.Failed {
		x := &a.Failed[i]
		f = x.Elements.AppendFields(f.Num(uint64(x.ErrorType)).Optional(x.ExitCode))
	}
	r := &a.Rows
	f = f.Num(uint64(r.Queued)<<32 | uint64(r.Live)).Num(uint64(r.Paused)<<32 | uint64(r.Succeeded))
	return f.Num(uint64(r.Failed)<<32 | uint64(r.Canceled)).Num(uint64(a.Attempts)<<32 | uint64(a.Base))
}

// ElementState is how one element of an array stands. Row is nil when it has none.
type ElementState struct {
	Number    uint32
	State     v1.JobState_Value
	ErrorType v1.ErrorType_Value
	ExitCode  *int32
	Row       *Job
}
