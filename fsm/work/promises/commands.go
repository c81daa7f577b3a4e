package promises

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// PromiseStarts replaces all promises by these: one that is not in it ends.
type PromiseStarts struct {
	Starts []Start `cbor:"1,keyasint,omitempty"`
}

// Start is the promised start of the next attempt of one job.
type Start struct {
	Job     ident.Job `cbor:"1,keyasint,omitempty"`
	Attempt uint32    `cbor:"2,keyasint,omitempty"`
	// At is in Unix nanoseconds.
	At int64 `cbor:"3,keyasint,omitempty"`
	// Tasks are the places, by rank.
	Tasks []work.TaskPlacement `cbor:"4,keyasint,omitempty"`
	// Cause is why it is not what was promised before; empty: it is, or nothing was.
	Cause reason.Reason `cbor:"5,keyasint,omitempty"`
}

// PromiseResult says which jobs have a promise now.
type PromiseResult struct {
	Promised []ident.Job
	Refused  []Refused
}

// Refused is a start that was not promised.
type Refused struct {
	Job    ident.Job
	Code   kernel.Code
	Reason reason.Reason
}

// CommandNumber implements kernel.Command.
func (PromiseStarts) CommandNumber() uint16 { return 54 }
