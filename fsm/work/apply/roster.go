package apply

import (
	"github.com/mindcoordinator/mind/fsm/work"
)

func ackRoster(tx *tx, c *work.AckRoster) any {
	var res work.AckRosterResult
	for _, a := range c.Acks {
		old, ok := tx.Node(a.Node)
		// A version that there never was is no acknowledgement of anything.
		if !ok || a.Version <= old.RosterAcked || a.Version > tx.meta.RosterVersion {
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

// enrol puts a node on the roster.
func (tx *tx) enrol(n *work.Node) {
	if n.RosterSince != 0 {
		return
	}
	n.RosterSince = tx.index
	tx.changeRoster()
}

// strike takes a node from the roster.
func (tx *tx) strike(n *work.Node) {
	if n.RosterSince == 0 {
		return
	}
	n.RosterSince = 0
	tx.changeRoster()
}

func (tx *tx) changeRoster() {
	tx.meta.RosterVersion = tx.index
	tx.meta.Touch()
}
