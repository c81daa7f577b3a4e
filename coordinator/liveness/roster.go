package liveness

import (
	"maps"
	"slices"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// Keep records that a node has a version of the roster on disk. It returns false if that is not new.
func (t *Term) Keep(node string, version uint64) bool {
	if version == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept[node] = max(t.kept[node], version)
	return true
}

// Kept returns the versions that nodes have and the state does not know, in the order of the nodes' names. It returns
// each once, so a failed write must be passed to Keep again.
func (t *Term) Kept(v *fsm.View) []nodeverbs.RosterAck {
	t.mu.Lock()
	defer t.mu.Unlock()
	var acks []nodeverbs.RosterAck
	for _, id := range slices.Sorted(maps.Keys(t.kept)) {
		if n, ok := v.Node(id); ok && n.RosterAcked < t.kept[id] {
			acks = append(acks, nodeverbs.RosterAck{Node: id, Version: t.kept[id]})
		}
	}
	clear(t.kept)
	return acks
}
