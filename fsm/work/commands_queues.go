package work

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

// PutQueue makes a queue, or changes one.
type PutQueue struct {
	Queue Queue         `cbor:"1,keyasint,omitempty"`
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

// DeleteQueue takes away a queue that no unfinished job is in.
type DeleteQueue struct {
	Name  string        `cbor:"1,keyasint,omitempty"`
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

// QueueResult is the queue as it is after the command (nil when it was deleted), or why nothing was done.
type QueueResult struct {
	Queue   *Queue
	Refusal *kernel.Refusal
}

// PutPolicy replaces the policy of the scheduler.
type PutPolicy struct {
	Policy Policy `cbor:"1,keyasint,omitempty"`
	// Base is the revision of the policy that it was made from, 0 for the default one. Another one meanwhile refuses it, so
	// that two who change different values do not undo each other's change.
	Base  uint64        `cbor:"2,keyasint,omitempty"`
	Actor *access.Actor `cbor:"3,keyasint,omitempty"`
}

// PolicyResult is the policy as it is after the command, with what it changed; or why nothing was done.
type PolicyResult struct {
	Policy *Policy
	// Changed is what changed, for people: "order FIFO -> SHORTEST".
	Changed string
	Refusal *kernel.Refusal
}

// PutQuota sets all limits of a tenant. It takes nothing away that the tenant has.
type PutQuota struct {
	Tenant     string        `cbor:"1,keyasint,omitempty"`
	MaxGPUs    *int32        `cbor:"2,keyasint,omitempty"`
	MaxRunning *int32        `cbor:"3,keyasint,omitempty"`
	MaxJobs    *int32        `cbor:"4,keyasint,omitempty"`
	By         string        `cbor:"5,keyasint,omitempty"`
	Actor      *access.Actor `cbor:"6,keyasint,omitempty"`
	MaxByType  typed.Limits  `cbor:"7,keyasint,omitempty"`
	// MaxGPUHours is for each month.
	MaxGPUHours *int32 `cbor:"8,keyasint,omitempty"`
}

// DeleteQuota takes all limits of a tenant away.
type DeleteQuota struct {
	Tenant string        `cbor:"1,keyasint,omitempty"`
	Actor  *access.Actor `cbor:"2,keyasint,omitempty"`
}

// QuotaResult is the quota as it is after the command (nil when it was deleted), or why nothing was done.
type QuotaResult struct {
	Quota   *Quota
	Refusal *kernel.Refusal
}
