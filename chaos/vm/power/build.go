package power

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/chaos/vm"
)

// Change is a change of one source file: Old, which must occur exactly once, becomes New.
type Change struct{ File, Old, New string }

// pace makes mind take a snapshot every second or two instead of every hour, and keep few entries behind it: cuts then
// happen during snapshots, and starts begin from snapshots.
var pace = []Change{
	{"raftnode/config.go", "cmp.Or(c.SnapshotInterval, 60*time.Second)", "cmp.Or(c.SnapshotInterval, time.Second)"},
	{"raftnode/config.go", "cmp.Or(c.SnapshotThreshold, 8192)", "cmp.Or(c.SnapshotThreshold, 32)"},
	{"raftnode/config.go", "cmp.Or(c.TrailingLogs, 16384)", "cmp.Or(c.TrailingLogs, 64)"},
}

// logStores are the changes that select the log store of the coordinators; mind dev has no flag for that. With "" they
// choose themselves, which results in wal, because their folders are new at first. With "moving" each start draws a log
// store: logs are moved repeatedly, and the power is cut meanwhile.
var logStores = map[string][]Change{
	"":       nil,
	"wal":    {{"coordinator/run.go", "LogStore: s.config.LogStore,", "LogStore: \"wal\","}},
	"boltdb": {{"coordinator/run.go", "LogStore: s.config.LogStore,", "LogStore: \"boltdb\","}},
	"moving": {{"coordinator/run.go", "LogStore: s.config.LogStore,", "LogStore: []string{\"wal\", \"boltdb\"}[time.Now().UnixMicro()%2],"}},
}

// root returns the folder of the sources.
func root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the sources of mind: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// apply returns the files that some changes modify, with the changes made.
func apply(root string, changes []Change) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, c := range changes {
		text, ok := files[c.File]
		if !ok {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, c.File)); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(text, []byte(c.Old)); n != 1 {
			return nil, fmt.Errorf("%q is in %s %d times, it should be there once: a change of the power cuts is stale", c.Old, c.File, n)
		}
		files[c.File] = bytes.Replace(text, []byte(c.Old), []byte(c.New), 1)
	}
	return files, nil
}

// shimFile is the place of the program that is embedded in mind, and shimPackage its package.
const (
	shimFile    = "agent/shim/embedded/shim"
	shimPackage = "agent/shim/alone"
)

// buildMind builds mind for the machine, with its embedded shim and some changes. The compiler gets the changed files
// as an overlay, so the tree is not changed.
func buildMind(ctx context.Context, dir, out string, changes []Change) error {
	root, err := root(ctx)
	if err != nil {
		return err
	}
	files, err := apply(root, slices.Concat(pace, changes))
	if err != nil {
		return err
	}
	replace := map[string]string{}
	n := 0
	for name, text := range files {
		n++
		changed := filepath.Join(dir, fmt.Sprintf("changed-%d.go", n))
		if err := os.WriteFile(changed, text, 0o600); err != nil {
			return err
		}
		replace[filepath.Join(root, name)] = changed
	}
	overlay := filepath.Join(dir, "overlay.json")
	write := func() error {
		text, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			return err
		}
		return os.WriteFile(overlay, text, 0o600)
	}
	if err := write(); err != nil {
		return err
	}
	shim := filepath.Join(dir, "shim")
	if err := vm.Build(ctx, shimPackage, shim, "-overlay", overlay); err != nil {
		return err
	}
	replace[filepath.Join(root, shimFile)] = shim
	if err := write(); err != nil {
		return err
	}
	return vm.Build(ctx, "cmd/mind", out, "-overlay", overlay, "-tags", "shim_embedded")
}
