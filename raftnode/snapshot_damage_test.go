package raftnode

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/raftnode/verify"
)

// A replica whose newest snapshot is damaged begins with the one before, if its log reaches back to that. Otherwise it
// must not start, because its state would lack entries, and must say why.
func TestOpen_withDamagedSnapshots(t *testing.T) {
	for name, tc := range map[string]struct {
		trailing uint64
		damaged  []int
		says     string
	}{
		"none, and the log is whole":                      {trailing: 4096},
		"the newest, and the log is whole":                {trailing: 4096, damaged: []int{1}},
		"both, and the log is whole":                      {trailing: 4096, damaged: []int{0, 1}, says: "no snapshot"},
		"the older one, which is not needed":              {trailing: 5, damaged: []int{0}},
		"the newest, and the log begins behind the other": {trailing: 5, damaged: []int{1}, says: "entries"},
		"both, and the log begins behind them":            {trailing: 5, damaged: []int{0, 1}, says: "no snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, last := written(t, StoreBolt, tc.trailing, 30)
			names, err := os.ReadDir(verify.SnapshotsPath(dir))
			require.NoError(t, err)
			require.Len(t, names, 2)
			for _, i := range tc.damaged {
				require.NoError(t, os.Truncate(filepath.Join(verify.SnapshotsPath(dir), names[i].Name(), "state.bin"), 100))
			}
			sm := &chain{}
			n, err := Open(Config{ID: "c1", Dir: dir, BindAddr: "127.0.0.1:0", Pack: packChain, LogStore: StoreBolt}, sm)
			if tc.says != "" {
				if err == nil {
					_ = n.Shutdown(t.Context())
				}
				require.ErrorContains(t, err, tc.says)
				require.ErrorContains(t, err, dir)
				require.ErrorContains(t, err, "empty data directory", "it says what to do")
				return
			}
			require.NoError(t, err)
			require.Eventually(t, func() bool { return n.AppliedIndex() >= last.Index }, 30*time.Second, 10*time.Millisecond)
			require.NoError(t, n.Shutdown(t.Context()))
		})
	}
}
