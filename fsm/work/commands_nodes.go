package work

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// RegisterNode makes a node known, or brings what is known of it up to date; it also ends an unreachability. State,
// Drain, the times and the roster in Node are ignored: they are the FSM's. (RosterAcked is not: it is the version that
// the agent has on disk; 0: none, or unknown.) A new BootID ends the node's tasks.
type RegisterNode struct {
	Node Node `cbor:"1,keyasint,omitempty"`
	// Tasks are those that the agent still has: alive, or ended and not yet acknowledged. A task of a lost attempt that
	// is not among them is gone.
	Tasks []TaskRef `cbor:"2,keyasint,omitempty"`
}

// TaskRef names one task of one attempt, and the token under which it was leased.
type TaskRef struct {
	Job     ident.Job `cbor:"1,keyasint,omitempty"`
	Attempt uint32    `cbor:"2,keyasint,omitempty"`
	Rank    uint16    `cbor:"3,keyasint,omitempty"`
	Token   uint64    `cbor:"4,keyasint,omitempty"`
}

// NodeResult is the node as it is after the command (nil when it was forgotten), or why nothing was done.
type NodeResult struct {
	Node    *Node
	Refusal *kernel.Refusal
}

// NodeAction is what SetNode does.
type NodeAction uint8

// The actions on a node.
const (
	// NodeUnreachable: the leader has not heard of it in time. Its tasks stay. Said again with another reason, it replaces
	// the reason.
	NodeUnreachable NodeAction = iota + 1
	// NodeReachable: it is back, with the same boot. A node that was declared lost has to register instead, and say what
	// it still runs.
	NodeReachable
	// NodeDrain: an operator wants it empty.
	NodeDrain
	// NodeEnable ends a drain, and has quarantined GPUs verified again.
	NodeEnable
	// NodeForget: an operator says that it will not come back. Its tasks end as NODE_LOST.
	NodeForget
	// NodeHealth brings the state of its GPUs up to date.
	NodeHealth
	// NodeFitness takes down why its agent cannot start tasks; without a reason it can.
	NodeFitness
)

// SetNode changes one thing about a node.
type SetNode struct {
	ID     string        `cbor:"1,keyasint,omitempty"`
	Action NodeAction    `cbor:"2,keyasint,omitempty"`
	Reason reason.Reason `cbor:"3,keyasint,omitempty"`
	// Force (drain): stop what runs there now. Deadline (drain): stop what still runs so many nanoseconds later; 0: never.
	Force    bool  `cbor:"4,keyasint,omitempty"`
	Deadline int64 `cbor:"5,keyasint,omitempty"`
	// GPUs (health) is the whole inventory; a GPU that it lacks has vanished.
	GPUs  []GPU         `cbor:"6,keyasint,omitempty"`
	Actor *access.Actor `cbor:"7,keyasint,omitempty"`
}

// LoseNode declares what ran on an unreachable node lost, as far as that may be said: with the votes of a majority, after
// the lease of each task has run out, and only what somebody may take over.
type LoseNode struct {
	Node  string `cbor:"1,keyasint,omitempty"`
	Votes []Vote `cbor:"2,keyasint,omitempty"`
	// Silent is for how long the leader has heard of no renewal, nanoseconds on its own clock, within its own term.
	Silent int64 `cbor:"3,keyasint,omitempty"`
	// Eligible are the nodes that have been in session with this leader for long enough to be trusted with a replacement.
	Eligible []string `cbor:"4,keyasint,omitempty"`
}

// Vote is what the gossip of one coordinator says of the node.
type Vote struct {
	Coordinator string `cbor:"1,keyasint,omitempty"`
	Dead        bool   `cbor:"2,keyasint,omitempty"`
	// Incarnation of the agent that the vote is about; 0: its gossip has never heard of it.
	Incarnation uint64 `cbor:"3,keyasint,omitempty"`
}

// LoseNodeResult is the node as it is after the command, and how many tasks were lost; or why nothing was done.
type LoseNodeResult struct {
	Node    *Node
	Lost    int
	Refusal *kernel.Refusal
}

// The roster is the set of nodes that may run what was lost elsewhere. Each agent keeps it on disk and says which version
// it has, so that the state knows for each node whom its agent will ask before it lets a task run on: those who were on
// the roster then, and are still.

// AckRoster takes down which version of the roster the agents have on disk.
type AckRoster struct {
	Acks []RosterAck `cbor:"1,keyasint,omitempty"`
}

// RosterAck says that the agent of a node has a version of the roster on disk.
type RosterAck struct {
	Node    string `cbor:"1,keyasint,omitempty"`
	Version uint64 `cbor:"2,keyasint,omitempty"`
}

// AckRosterResult counts the acknowledgements that said something new.
type AckRosterResult struct {
	Taken int
}
