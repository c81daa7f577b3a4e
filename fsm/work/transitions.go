package work

import (
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Transition is a legal change of a job's state.
type Transition struct {
	From, To v1.JobState_Value
	Why      string
}

// transitions is the whole table: what is not in it does not happen. UNSPECIFIED is where a job comes from.
var transitions = []Transition{
	{v1.JobState_UNSPECIFIED, v1.JobState_QUEUED, "submitted"},

	{v1.JobState_QUEUED, v1.JobState_ALLOCATED, "all leases granted"},
	{v1.JobState_QUEUED, v1.JobState_PAUSED, "paused"},
	{v1.JobState_QUEUED, v1.JobState_CANCELED, "canceled, or a dependency cannot be met"},

	{v1.JobState_ALLOCATED, v1.JobState_STARTING, "an agent launches"},
	{v1.JobState_STARTING, v1.JobState_RUNNING, "alive on every rank"},
	{v1.JobState_RUNNING, v1.JobState_SUCCEEDED, "every rank exited 0"},

	{v1.JobState_ALLOCATED, v1.JobState_FAILED, "a task failed"},
	{v1.JobState_STARTING, v1.JobState_FAILED, "a task failed"},
	{v1.JobState_RUNNING, v1.JobState_FAILED, "a task failed, or the time limit"},

	{v1.JobState_ALLOCATED, v1.JobState_QUEUED, "retry"},
	{v1.JobState_STARTING, v1.JobState_QUEUED, "retry"},
	{v1.JobState_RUNNING, v1.JobState_QUEUED, "retry"},

	{v1.JobState_ALLOCATED, v1.JobState_PAUSED, "paused"},
	{v1.JobState_STARTING, v1.JobState_PAUSED, "paused"},
	{v1.JobState_RUNNING, v1.JobState_PAUSED, "paused"},

	{v1.JobState_ALLOCATED, v1.JobState_CANCELED, "canceled"},
	{v1.JobState_STARTING, v1.JobState_CANCELED, "canceled"},
	{v1.JobState_RUNNING, v1.JobState_CANCELED, "canceled"},

	{v1.JobState_ALLOCATED, v1.JobState_PREEMPTED, "preempted"},
	{v1.JobState_STARTING, v1.JobState_PREEMPTED, "preempted"},
	{v1.JobState_RUNNING, v1.JobState_PREEMPTED, "preempted"},

	{v1.JobState_ALLOCATED, v1.JobState_LOST, "node lost"},
	{v1.JobState_STARTING, v1.JobState_LOST, "node lost"},
	{v1.JobState_RUNNING, v1.JobState_LOST, "node lost"},

	{v1.JobState_PAUSED, v1.JobState_QUEUED, "resumed"},
	{v1.JobState_PAUSED, v1.JobState_CANCELED, "canceled"},

	{v1.JobState_PREEMPTED, v1.JobState_QUEUED, "may restart"},
	{v1.JobState_LOST, v1.JobState_QUEUED, "retry"},
	{v1.JobState_FAILED, v1.JobState_QUEUED, "retried by a user"},
	{v1.JobState_CANCELED, v1.JobState_QUEUED, "retried by a user"},
}

// arrayTransitions is the whole table for the row of an array, whose elements have states of their own.
var arrayTransitions = []Transition{
	{v1.JobState_UNSPECIFIED, v1.JobState_QUEUED, "submitted"},

	{v1.JobState_QUEUED, v1.JobState_RUNNING, "the first element has its leases"},
	{v1.JobState_QUEUED, v1.JobState_PAUSED, "paused"},
	{v1.JobState_QUEUED, v1.JobState_CANCELED, "canceled, or a dependency cannot be met"},
	{v1.JobState_QUEUED, v1.JobState_FAILED, "all are over, and an element failed"},

	{v1.JobState_RUNNING, v1.JobState_SUCCEEDED, "all elements succeeded"},
	{v1.JobState_RUNNING, v1.JobState_FAILED, "all are over, and an element failed"},
	{v1.JobState_RUNNING, v1.JobState_CANCELED, "canceled, or an element was and none failed"},
	{v1.JobState_RUNNING, v1.JobState_PAUSED, "paused"},

	{v1.JobState_PAUSED, v1.JobState_QUEUED, "resumed before the first start"},
	{v1.JobState_PAUSED, v1.JobState_RUNNING, "resumed, or canceled while elements stop"},
	{v1.JobState_PAUSED, v1.JobState_SUCCEEDED, "all elements succeeded"},
	{v1.JobState_PAUSED, v1.JobState_FAILED, "all are over, and an element failed"},
	{v1.JobState_PAUSED, v1.JobState_CANCELED, "canceled"},

	{v1.JobState_FAILED, v1.JobState_QUEUED, "retried by a user"},
	{v1.JobState_CANCELED, v1.JobState_QUEUED, "retried by a user"},
}

// Transitions returns the legal transitions.
func Transitions() []Transition { return append([]Transition(nil), transitions...) }

// movable[from] is the set of states that from may change to; built from a table.
type movable [16]uint16

func tableOf(transitions []Transition) (m movable) {
	for _, t := range transitions {
		m[t.From] |= 1 << t.To
	}
	return m
}

var jobsMove, arraysMove = tableOf(transitions), tableOf(arrayTransitions)

func (m *movable) can(from, to v1.JobState_Value) bool {
	if from < 0 || to < 0 || int(from) >= len(m) || int(to) >= len(m) {
		return false
	}
	return m[from]&(1<<to) != 0
}

// CanMove says whether a job may change from one state to the other.
func CanMove(from, to v1.JobState_Value) bool { return jobsMove.can(from, to) }

// CanMoveArray says whether the row of an array may change from one state to the other.
func CanMoveArray(from, to v1.JobState_Value) bool { return arraysMove.can(from, to) }

// Mermaid draws the transitions of jobs as a Mermaid state diagram.
func Mermaid() string { return draw(transitions) }

// MermaidOfArrays draws those of arrays.
func MermaidOfArrays() string { return draw(arrayTransitions) }

func draw(transitions []Transition) string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, t := range transitions {
		from := t.From.String()
		if t.From == v1.JobState_UNSPECIFIED {
			from = "[*]"
		}
		b.WriteString("    " + from + " --> " + t.To.String() + ": " + t.Why + "\n")
	}
	b.WriteString("    SUCCEEDED --> [*]\n")
	return b.String()
}
