// Package status holds the tables on which every room agrees: which published
// status a job shows, what an error of a coordinator means to a caller of the
// REST interface, and how the metadata of a call is named.
//
// Contract: each table is data, in one place, and total: a test walks every
// value of every enum through it. The package depends on nothing but the
// generated code.
package status

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// row says what a job in a state shows. A wildcard phase or considered matches
// all values; rows are looked up in order.
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

// rows is the table of docs/architecture.md. A job that may
// start again leaves LOST in the log entry that brought it there, so a LOST
// job that anybody sees is over.
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

// Of returns the status that a job shows: phase counts while it is RUNNING,
// considered (has a scheduler pass looked at it?) while it is QUEUED. It is
// UNSPECIFIED for a state that does not exist.
func Of(state v1.JobState_Value, phase v1.JobPhase_Value, considered bool) v1.JobStatus_Value {
	for _, r := range rows {
		if r.matches(state, phase, considered) {
			return r.status
		}
	}
	return v1.JobStatus_UNSPECIFIED
}

// Terminal says that a job in this state has ended: only an explicit retry
// opens a new attempt. PREEMPTED and LOST are left within the log entry that
// brought them when the job may start again; seen, they are final.
func Terminal(state v1.JobState_Value) bool {
	switch state {
	case v1.JobState_SUCCEEDED, v1.JobState_FAILED, v1.JobState_CANCELED, v1.JobState_PREEMPTED, v1.JobState_LOST:
		return true
	}
	return false
}

// Filter answers which jobs a list of wanted statuses lets through. The zero
// Filter lets every job through.
type Filter struct {
	some     bool
	statuses uint32
	states   uint32
}

// NewFilter returns the filter for any of the given statuses; none given: all
// jobs. Statuses that do not exist match no job.
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

// All says that the filter lets every job through.
func (f Filter) All() bool { return !f.some }

// State says whether a job in this state can pass at all; use it to choose an
// index.
func (f Filter) State(state v1.JobState_Value) bool {
	return f.All() || (state >= 0 && state < 32 && f.states&(1<<state) != 0)
}

// Match says whether a job passes.
func (f Filter) Match(state v1.JobState_Value, phase v1.JobPhase_Value, considered bool) bool {
	return f.All() || (f.State(state) && f.statuses&(1<<Of(state, phase, considered)) != 0)
}

// States returns the states that can show the status, in order.
func States(wanted v1.JobStatus_Value) []v1.JobState_Value {
	var out []v1.JobState_Value
	for _, r := range rows {
		if r.status == wanted && (len(out) == 0 || out[len(out)-1] != r.state) {
			out = append(out, r.state)
		}
	}
	return out
}
