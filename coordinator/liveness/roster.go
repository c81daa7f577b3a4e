package liveness

import (
	"maps"
	"slices"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Keep notes that a node has a version of the roster on disk. It is false when that says nothing.
func (t *Term) Keep(node string, version uint64) bool {
	if version == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept[node] = max(t.kept[node], version)
	return true
}

// Kept returns what nodes keep and the state does not know of, in the order of their names, each of it once: what was not
// written is handed to Keep again.
func (t *Term) Kept(v *fsm.View) []work.RosterAck {
	t.mu.Lock()
	defer t.mu.Unlock()
	var acks []work.RosterAck
	for _, id := range slices.Sorted(maps.Keys(t.kept)) {
		if n, ok := v.Node(id); ok && n.RosterAcked < t.kept[id] {
			acks = append(acks, work.RosterAck{Node: id, Version: t.kept[id]})
		}
	}
	clear(t.kept)
	return acks
}
