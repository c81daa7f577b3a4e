package liveness

import (
	"time"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// saysSilent reports whether the row of an unreachable node gives silence as the reason. Other reasons are that it was
// declared lost, and that the cluster was recovered.
func saysSilent(n *work.Node) bool {
	c := n.Reason.Code()
	return c == reason.NodeSilent || c == reason.NodeSilentButRenews
}

// Seen is the result of a look at all nodes.
type Seen struct {
	// Changes are to be proposed. The session of a node that becomes unreachable must be ended afterwards.
	Changes []nodeverbs.SetNode
	// Again are nodes whose sessions must be ended so that they register again.
	Again []string
	// Away counts the nodes that are unreachable in the state.
	Away int
}

// Look finds the nodes that became silent and those that are back. It declares none lost: that takes the votes of a
// majority and an expired lease (Bench). Look must be called only while Listening.
func (t *Term) Look(v *fsm.View, now time.Time) Seen {
	var seen Seen
	for n := range v.Nodes() {
		at, inSession := t.LastSeen(n.ID)
		silent := now.Sub(at) > t.unreachableAfter
		if n.UnreachableSince != 0 {
			seen.Away++
		}
		because := reason.NodeSilent
		if silent && t.RenewsThroughPeers(n.ID, now) {
			because = reason.NodeSilentButRenews
		}
		why := reason.New(because, int64(t.unreachableAfter))
		switch {
		case silent && n.UnreachableSince == 0,
			silent && n.LostSince == 0 && n.Reason != why && saysSilent(n):
			seen.Changes = append(seen.Changes, nodeverbs.SetNode{ID: n.ID, Action: nodeverbs.NodeUnreachable, Reason: why})
		case silent || !inSession || n.UnreachableSince == 0:
		case n.LostSince != 0 || n.Unheard:
			// The node was declared lost while it reconnected: it must report its tasks again.
			if t.isRegistered(n.ID) {
				seen.Again = append(seen.Again, n.ID)
			}
		default:
			seen.Changes = append(seen.Changes, nodeverbs.SetNode{ID: n.ID, Action: nodeverbs.NodeReachable})
		}
	}
	return seen
}

func (t *Term) isRegistered(node string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p := t.byNode[node]
	return p != nil && p.registered.Load()
}
