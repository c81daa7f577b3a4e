// Package status holds tables that all packages share: the published status of a job, the REST form of a coordinator's
// error, and the names of a call's metadata.
//
// Contract: each table is data, in one place, and complete: a test checks every value of every enum. The package imports
// only the generated code.
package status

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// row is the status of a job in a state. A wildcard phase or considered matches all values. The first matching row
// counts.
type row struct {
	state      v1.JobState_Value
	phase      v1.JobPhase_Value // UNSPECIFIED: any
	considered tri
	status     v1.JobStatus_Value
}

type tri int8

const (
	either tri = iota
	yes
	no
)

// rows is the table of docs/architecture.md. A job that may start again leaves LOST in the log entry that set it, so a
// visible LOST job has ended.
var rows = []row{
	{v1.JobState_QUEUED, 0, no, v1.JobStatus_PENDING},
	{v1.JobState_QUEUED, 0, yes, v1.JobStatus_QUEUED},
	{v1.JobState_ALLOCATED, 0, either, v1.JobStatus_SCHEDULING},
	{v1.JobState_STARTING, 0, either, v1.JobStatus_PREPARING},
	{v1.JobState_RUNNING, v1.JobPhase_CHECKPOINTING, either, v1.JobStatus_CHECKPOINTING},
	{v1.JobState_RUNNING, v1.JobPhase_EVALUATING, either, v1.JobStatus_EVALUATING},
	{v1.JobState_RUNNING, v1.JobPhase_EXPORTING, either, v1.JobStatus_EXPORTING},
	{v1.JobState_RUNNING, 0, either, v1.JobStatus_TRAINING},
	{v1.JobState_PAUSED, 0, either, v1.JobStatus_PAUSED},
	{v1.JobState_SUCCEEDED, 0, either, v1.JobStatus_COMPLETED},
	{v1.JobState_FAILED, 0, either, v1.JobStatus_FAILED},
	{v1.JobState_CANCELED, 0, either, v1.JobStatus_CANCELLED},
	{v1.JobState_PREEMPTED, 0, either, v1.JobStatus_PREEMPTED},
	{v1.JobState_LOST, 0, either, v1.JobStatus_FAILED},
}

func (r row) matches(state v1.JobState_Value, phase v1.JobPhase_Value, considered bool) bool {
	if r.state != state || (r.phase != 0 && r.phase != phase) {
		return false
	}
	return r.considered == either || (r.considered == yes) == considered
}

// Of returns the status of a job, UNSPECIFIED for an unknown state. phase matters while the job is RUNNING. considered
// says that a scheduler pass has considered the job; it matters while the job is QUEUED.
func Of(state v1.JobState_Value, phase v1.JobPhase_Value, considered bool) v1.JobStatus_Value {
	for _, r := range rows {
		if r.matches(state, phase, considered) {
			return r.status
		}
	}
	return v1.JobStatus_UNSPECIFIED
}

// Terminal reports whether a job in this state has ended: only an explicit retry starts a new attempt. If the job may start
// again, PREEMPTED and LOST are left within the log entry that set them; visible, they are final.
func Terminal(state v1.JobState_Value) bool {
	switch state {
	case v1.JobState_SUCCEEDED, v1.JobState_FAILED, v1.JobState_CANCELED, v1.JobState_PREEMPTED, v1.JobState_LOST:
		return true
	}
	return false
}

// Filter selects jobs by status. The zero Filter selects every job.
type Filter struct {
	some     bool
	statuses uint32
	states   uint32
}

// NewFilter returns a filter for jobs with any of the given statuses, and for all jobs if none is given. Unknown
// statuses match no job.
func NewFilter(wanted ...v1.JobStatus_Value) Filter {
	f := Filter{some: len(wanted) > 0}
	for _, s := range wanted {
		if s > 0 && s < 32 {
			f.statuses |= 1 << s
		}
	}
	for _, r := range rows {
		if f.statuses&(1<<r.status) != 0 {
			f.states |= 1 << r.state
		}
	}
	return f
}

// All reports whether the filter selects every job.
func (f Filter) All() bool { return !f.some }

// State reports whether any job in this state can match; use it to choose an index.
func (f Filter) State(state v1.JobState_Value) bool {
	return f.All() || (state >= 0 && state < 32 && f.states&(1<<state) != 0)
}

// Match reports whether a job matches.
func (f Filter) Match(state v1.JobState_Value, phase v1.JobPhase_Value, considered bool) bool {
	return f.All() || (f.State(state) && f.statuses&(1<<Of(state, phase, considered)) != 0)
}

// States returns the states in which a job can have one of the statuses, in order.
func States(wanted v1.JobStatus_Value) []v1.JobState_Value {
	var out []v1.JobState_Value
	for _, r := range rows {
		if r.status == wanted && (len(out) == 0 || out[len(out)-1] != r.state) {
			out = append(out, r.state)
		}
	}
	return out
}
