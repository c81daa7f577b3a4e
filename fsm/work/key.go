package work

import (
	"github.com/mindcoordinator/mind/fsm/ident"
)

// IdempotencyKey remembers what a key was first used for.
type IdempotencyKey struct {
	Tenant      string    `cbor:"1,keyasint,omitempty"`
	Key         string    `cbor:"2,keyasint,omitempty"`
	Fingerprint uint64    `cbor:"3,keyasint,omitempty"`
	Job         ident.Job `cbor:"4,keyasint,omitempty"`
	// Action is 0 for a submit.
	Action    Action `cbor:"5,keyasint,omitempty"`
	ExpiresAt int64  `cbor:"6,keyasint,omitempty"`
}

// Action is what ControlJob does.
type Action uint8

// The actions on a job.
const (
	ActionCancel Action = iota + 1
	ActionPause
	ActionResume
	ActionRetry
)
