package raftnode

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"
)

// explainStart explains an error with which raft did not start because snapshots are damaged: either no snapshot can be
// read, or the log does not reach back to one that can. Other errors are returned unchanged. The messages of raft do
// not say this.
func (n *Node) explainStart(err error, snapshots raft.SnapshotStore) error {
	list, listErr := snapshots.List()
	if listErr != nil || len(list) == 0 {
		return err
	}
	how := ""
	switch {
	case errors.Is(err, raft.ErrLogNotFound):
		how = "its newest snapshot cannot be read, and entries between the one before and the beginning of the log are gone"
	case strings.Contains(err.Error(), "failed to load any existing snapshots"):
		how = "no snapshot can be read"
	default:
		return err
	}
	return fmt.Errorf("the snapshots in %s are damaged (%s: %w): take this coordinator out with `mind raft remove`, and start it with an "+
		"empty data directory and join_via (`mind raft verify` says more of what is wrong)", filepath.Join(n.cfg.Dir, "snapshots"), how, err)
}
