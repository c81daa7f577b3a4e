package liveness

import (
	"strings"
	"time"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// silentFor begins what the row of a node says that is away because it was silent, as it was written below level.CodedReasons. It
// may say something else: it was declared lost, or the cluster was recovered.
const silentFor = "not heard of for "

// Seen is what a look at all nodes found.
type Seen struct {
	// Changes are to be proposed. The session of a node that becomes unreachable is to be ended afterwards.
	Changes []work.SetNode
	// Again are nodes whose sessions are to be ended so that they register anew.
	Again []string
	// Away counts the nodes that the state has as unreachable.
	Away int
}

// Look finds the nodes that fell silent and those that are back. It says no more than that: whether such a node is lost takes
// the votes of a majority and an expired lease (Bench). It must be called only while Listening.
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
			silent && n.LostSince == 0 && !reason.Same(n.Reason, why) && strings.HasPrefix(n.Reason.Before(), silentFor):
			seen.Changes = append(seen.Changes, work.SetNode{ID: n.ID, Action: work.NodeUnreachable, Reason: why})
		case silent || !inSession || n.UnreachableSince == 0:
		case n.LostSince != 0 || n.Unheard:
			// It was declared lost while it was on its way back: it must say again what it still runs.
			if t.isRegistered(n.ID) {
				seen.Again = append(seen.Again, n.ID)
			}
		default:
			seen.Changes = append(seen.Changes, work.SetNode{ID: n.ID, Action: work.NodeReachable})
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
