package work

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
)

// AwaitedTask is a task of a lost attempt that may still be alive: nobody has heard of its end.
type AwaitedTask struct {
	Node    string `cbor:"1,keyasint,omitempty"`
	Attempt uint32 `cbor:"2,keyasint,omitempty"`
	Rank    uint16 `cbor:"3,keyasint,omitempty"`
	Token   uint64 `cbor:"4,keyasint,omitempty"`
	// Roster is the version of the roster that the node had acknowledged when its task was lost.
	Roster uint64 `cbor:"5,keyasint,omitempty"`
	Loss   Loss   `cbor:"6,keyasint,omitempty"`
}

// LossKind says on what grounds a task counts as lost.
type LossKind uint8

// The grounds.
const (
	// LossDeclared: a majority of the voters called its node dead, and its lease had run out.
	LossDeclared LossKind = iota + 1
	// LossReboot: its node came back with a new boot id.
	LossReboot
	// LossForgotten: an operator said that its node will not come back.
	LossForgotten
	// LossGivenUp: its node was away for longer than the job would wait.
	LossGivenUp
	// LossForgottenByLog: its node has no such task, and the part of the log that told why is gone.
	LossForgottenByLog
)

// Loss is the evidence on which a task was declared lost. The figures go with LossDeclared.
type Loss struct {
	How LossKind `cbor:"1,keyasint,omitempty"`
	// Votes of so many Voters said that the node was dead; it had been silent for so many nanoseconds.
	Votes  uint16 `cbor:"2,keyasint,omitempty"`
	Voters uint16 `cbor:"3,keyasint,omitempty"`
	Silent int64  `cbor:"4,keyasint,omitempty"`
}

// Replacement says whether a task of an earlier attempt may still be alive somewhere.
func (j *Job) Replacement() bool { return len(j.Awaits) > 0 }

// MayRunOn says whether a task of the job may be placed on a node although tasks of its earlier attempts may still be
// alive: their nodes have to know that this one could take over from them, or else they would not ask it first.
func (j *Job) MayRunOn(n *Node) bool {
	for i := range j.Awaits {
		if n.RosterSince == 0 || n.RosterSince > j.Awaits[i].Roster {
			return false
		}
	}
	return true
}

// Avoids says whether an attempt failed on a node since a user last retried the job. Other nodes are better, if there are
// any.
func (j *Job) Avoids(node string) bool {
	for i := range j.Past {
		if p := &j.Past[i]; p.FailedNode == node && node != "" && p.Attempt > j.RetriedAt {
			return true
		}
	}
	return false
}

func (j *Job) avoidsAny() bool {
	for i := range j.Past {
		if p := &j.Past[i]; p.FailedNode != "" && p.Attempt > j.RetriedAt {
			return true
		}
	}
	return false
}

// Await takes down that a task of j may still be alive.
func (j *Job) Await(a AwaitedTask) {
	j.Awaits = append(slices.Clone(j.Awaits), a)
}

// SettleAwaits keeps the entries that still are to be waited for; true: some went.
func (j *Job) SettleAwaits(still func(a *AwaitedTask) bool) bool {
	var kept []AwaitedTask
	for i := range j.Awaits {
		if still(&j.Awaits[i]) {
			kept = append(kept, j.Awaits[i])
		}
	}
	if len(kept) == len(j.Awaits) {
		return false
	}
	j.Awaits = kept
	return true
}

// SilenceUntilLost is how long a node must have been silent before a task of the job on it can be lost.
func (j *Job) SilenceUntilLost() int64 { return max(j.LostAfter, MinLostAfter) }

// TaskRef names one task of one attempt, and the token under which it was leased.
type TaskRef struct {
	Job     ident.Job `cbor:"1,keyasint,omitempty"`
	Attempt uint32    `cbor:"2,keyasint,omitempty"`
	Rank    uint16    `cbor:"3,keyasint,omitempty"`
	Token   uint64    `cbor:"4,keyasint,omitempty"`
}
