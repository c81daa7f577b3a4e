package nodeverbs

import (
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// The roster is the set of nodes that may run what was lost elsewhere. Each agent keeps it on disk and says which version
// it has, so that the state knows which agents the agent of a node will ask before it lets a task run on: those who were on
// the roster then, and are still.
//
// AckRoster takes down which version of the roster the agents have on disk.
type AckRoster struct {
	Acks []RosterAck `cbor:"1,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (AckRoster) CommandNumber() uint16 { return 14 }

func init() { verbs.Add(lifecycle.Verb("AckRoster", ackRoster, nil)) }

// RosterAck says that the agent of a node has a version of the roster on disk.
type RosterAck struct {
	Node    string `cbor:"1,keyasint,omitempty"`
	Version uint64 `cbor:"2,keyasint,omitempty"`
}

// AckRosterResult counts the acknowledgements that said something new.
type AckRosterResult struct {
	Taken int
}

func ackRoster(tx *lifecycle.Tx, c *AckRoster) AckRosterResult {
	var res AckRosterResult
	for _, a := range c.Acks {
		old, ok := tx.Node(a.Node)
		// An acknowledgement of a version beyond the newest is ignored.
		if !ok || a.Version <= old.RosterAcked || a.Version > tx.Meta.RosterVersion {
			continue
		}
		n := *old
		n.RosterAcked = a.Version
		// Nothing that anybody watches has changed: the row keeps its revision, and no event tells of it.
		tx.PutNode(old, &n)
		res.Taken++
	}
	return res
}
