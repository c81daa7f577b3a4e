package recovery

import (
	"context"
	"path/filepath"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

// Verify walks the log and the snapshots in the data directory of a coordinator that does not run, and changes nothing.
// logStore is that of the configuration, empty for whichever is there; at is an index at which the hash is wanted too, or 0. Hashes
// are those that GetStateHash tells, so that the data of one replica can be held against another that runs.
func Verify(ctx context.Context, dataDir, logStore string, at uint64) (*verify.Report, error) {
	return verify.Data(ctx, verify.Config{
		Dir: filepath.Join(dataDir, "raft"), LogStore: logStore, At: at,
		New: newReplayed,
	})
}

// replayed is the state machine as Verify wants it.
type replayed struct{ replica.Hosted }

// Decode implements verify.Replay.
func (r replayed) Decode(entry []byte) error { return fsm.CheckEntry(entry) }

// Hash implements verify.Replay.
func (r replayed) Hash() string { return replica.HashText(r.View().Hash()) }

// Check implements verify.Replay.
func (r replayed) Check() []string { return fsm.Check(r.View()) }
