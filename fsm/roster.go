package fsm

import "iter"

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

func (AckRoster) commandType() uint16 { return 14 }

func (c AckRoster) apply(tx *tx) any {
	var res AckRosterResult
	for _, a := range c.Acks {
		old, ok := tx.Node(a.Node)
		// A version that there never was is no acknowledgement of anything.
		if !ok || a.Version <= old.RosterAcked || a.Version > tx.meta.RosterVersion {
			continue
		}
		n := *old
		n.RosterAcked = a.Version
		// Nothing that anybody watches has changed: the row keeps its revision, and no event tells of it.
		tx.putNode(old, &n)
		res.Taken++
	}
	return res
}

// enrol puts a node on the roster.
func (tx *tx) enrol(n *Node) {
	if tx.version < 2 || n.RosterSince != 0 {
		return
	}
	n.RosterSince = tx.index
	tx.changeRoster()
}

// strike takes a node from the roster.
func (tx *tx) strike(n *Node) {
	if n.RosterSince == 0 {
		return
	}
	n.RosterSince = 0
	tx.changeRoster()
}

func (tx *tx) changeRoster() {
	tx.meta.RosterVersion = tx.index
	tx.meta.touch()
}

// RosterVersion is the index of the last change of the roster.
func (v *View) RosterVersion() uint64 { return v.meta.RosterVersion }

// Roster iterates the nodes on the roster, by id.
func (v *View) Roster() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for n := range v.Nodes() {
			if n.RosterSince != 0 && !yield(n) {
				return
			}
		}
	}
}
