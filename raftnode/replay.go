package raftnode

import "github.com/mindcoordinator/mind/raftnode/replay"

// Past is what this replica keeps of the past, to be replayed.
func (n *Node) Past() replay.Source {
	return replay.Source{Log: n.store, Snapshots: n.snapshots, Applied: n.AppliedIndex()}
}
