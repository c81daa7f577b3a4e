package lifecycle

import (
	"github.com/mindcoordinator/mind/fsm/work"
)

// Enrol puts a node on the roster.
func (tx *Tx) Enrol(n *work.Node) {
	if n.RosterSince != 0 {
		return
	}
	n.RosterSince = tx.Index
	tx.ChangeRoster()
}

// Strike takes a node from the roster.
func (tx *Tx) Strike(n *work.Node) {
	if n.RosterSince == 0 {
		return
	}
	n.RosterSince = 0
	tx.ChangeRoster()
}

func (tx *Tx) ChangeRoster() {
	tx.Meta.RosterVersion = tx.Index
	tx.Meta.Touch()
}
