package work

import (
	"github.com/mindcoordinator/mind/fsm/ident"
)

// Placement gives all tasks of a new attempt their places.
type Placement struct {
	Job ident.Job `cbor:"1,keyasint,omitempty"`
	// Attempt is the number of the new attempt: the job's Attempt + 1.
	Attempt uint32 `cbor:"2,keyasint,omitempty"`
	// Tasks in order of rank, each on a node of its own.
	Tasks []TaskPlacement `cbor:"3,keyasint,omitempty"`
}

// TaskPlacement is one node, and the set of GPU indices on it (one GPU for a fraction).
type TaskPlacement struct {
	Node string `cbor:"1,keyasint,omitempty"`
	GPUs uint64 `cbor:"2,keyasint,omitempty"`
}
