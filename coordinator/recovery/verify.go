package recovery

import (
	"context"
	"path/filepath"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

// Verify checks the log and the snapshots in the data directory of a stopped coordinator, and changes nothing. logStore
// is the configured log store, or empty for the existing one. at is an index whose hash is also reported, or 0. The
// hashes are those of GetStateHash, so that the data of a stopped replica can be compared with a running one.
func Verify(ctx context.Context, dataDir, logStore string, at uint64) (*verify.Report, error) {
	return verify.Data(ctx, verify.Config{
		Dir: filepath.Join(dataDir, "raft"), LogStore: logStore, At: at,
		New: newReplayed,
	})
}

// replayed adapts the state machine for Verify.
type replayed struct{ replica.Hosted }

// Decode implements verify.Replay.
func (r replayed) Decode(entry []byte) error { return fsm.CheckEntry(entry) }

// Hash implements verify.Replay.
func (r replayed) Hash() string { return replica.HashText(r.View().Hash()) }

// Check implements verify.Replay.
func (r replayed) Check() []string { return fsm.Check(r.View()) }
