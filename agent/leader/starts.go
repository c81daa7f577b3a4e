package leader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/mindcoordinator/mind/durable"
)

// startsFile, in the data directory, has the number of starts of agents, in eight bytes. The numbers of heartbeats and
// reports are derived from it, so that no number is used twice.
const startsFile = "epoch"

// FirstNumber counts a start of the agent, and returns a number above all numbers that earlier agents on the data
// directory can have used. If the file is damaged, it uses the clock's seconds, which are larger than any number of
// starts. traces are the entries that show that a data directory was used: files, and folders that are not empty.
func FirstNumber(dir string, traces []string, now time.Time, log *slog.Logger) (uint64, error) {
	name := filepath.Join(dir, startsFile)
	data, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read how often the agent was started: %w", err)
	}
	starts := uint64(1)
	switch missing := err != nil; {
	case missing && !used(dir, traces):
	case len(data) == 8 && binary.BigEndian.Uint64(data) != 0:
		starts += binary.BigEndian.Uint64(data)
	default:
		if now.Year() < 2026 {
			return 0, fmt.Errorf("%s is damaged or missing, and the clock of this machine, which could replace it, is at %s: set the clock and start the agent again", name, now.Format(time.DateOnly))
		}
		starts = uint64(now.Unix())
		log.Error("the file that counts the starts of the agent is damaged or missing: using the clock instead", "file", name, "starts", starts)
	}
	if err := durable.WriteFile(name, binary.BigEndian.AppendUint64(nil, starts), 0o600); err != nil {
		return 0, fmt.Errorf("write how often the agent was started: %w", err)
	}
	return starts << 32, nil
}

// used reports whether an agent was started on a data directory before.
func used(dir string, traces []string) bool {
	for _, name := range append([]string{RosterFile}, traces...) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if !info.IsDir() {
			return true
		}
		if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
			return true
		}
	}
	return false
}
