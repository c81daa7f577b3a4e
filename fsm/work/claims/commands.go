package claims

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// PreemptJobs asks running jobs to make room for waiting ones, each preemption for itself.
type PreemptJobs struct {
	Preemptions []Preemption `cbor:"1,keyasint,omitempty"`
}

// Preemption makes room for the next attempt of one job.
type Preemption struct {
	Job     ident.Job `cbor:"1,keyasint,omitempty"`
	Attempt uint32    `cbor:"2,keyasint,omitempty"`
	// Tasks are the places that the job gets, by rank.
	Tasks   []work.TaskPlacement `cbor:"3,keyasint,omitempty"`
	Victims []Victim             `cbor:"4,keyasint,omitempty"`
	// Reclaim: the job is within what a queue is guaranteed, and its victims have borrowed from it. Their priorities do not
	// matter, and nothing protects them.
	Reclaim bool `cbor:"5,keyasint,omitempty"`
}

// Victim is a running attempt that is asked to stop.
type Victim struct {
	Job     ident.Job `cbor:"1,keyasint,omitempty"`
	Attempt uint32    `cbor:"2,keyasint,omitempty"`
}

// PreemptResult says what came of each preemption.
type PreemptResult struct {
	// Claimed are the jobs that have a claim now.
	Claimed []ident.Job
	Refused []Refused
}

// Refused is a preemption that was not begun.
type Refused struct {
	Job    ident.Job
	Code   kernel.Code
	Reason reason.Reason
}

// CommandNumber implements kernel.Command.
func (PreemptJobs) CommandNumber() uint16 { return 42 }
