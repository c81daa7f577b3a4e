package raftnode

import "github.com/mindcoordinator/mind/raftnode/replay"

// Past returns the log and the snapshots of this replica, for package replay.
func (n *Node) Past() replay.Source {
	return replay.Source{Log: n.store, Snapshots: n.snapshots, Applied: n.AppliedIndex()}
}
