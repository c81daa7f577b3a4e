package agent

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

// epochFile, in the data directory, holds how often an agent was started on it, in eight bytes. Heartbeats and reports are
// numbered from it on: a number that an earlier agent has given to one must not be given to another.
const epochFile = "epoch"

// nextEpoch returns a number above all that earlier agents on the data directory can have given. Where the file does not say
// how many there were, the seconds of the clock are more.
func nextEpoch(dir string, now time.Time, log *slog.Logger) (uint64, error) {
	name := filepath.Join(dir, epochFile)
	data, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read epoch: %w", err)
	}
	epoch := uint64(1)
	switch missing := err != nil; {
	case missing && !used(dir):
	case len(data) == 8 && binary.BigEndian.Uint64(data) != 0:
		epoch += binary.BigEndian.Uint64(data)
	default:
		if now.Year() < 2026 {
			return 0, fmt.Errorf("%s is damaged or gone, and the clock of this machine, which could take its place, says %s: set the clock and start the agent again", name, now.Format(time.DateOnly))
		}
		epoch = uint64(now.Unix())
		log.Error("the file that counts the starts of the agent is damaged or gone: going on from the clock", "file", name, "epoch", epoch)
	}
	if err := durable.WriteFile(name, binary.BigEndian.AppendUint64(nil, epoch), 0o600); err != nil {
		return 0, fmt.Errorf("write epoch: %w", err)
	}
	return epoch << 32, nil
}

// used says whether an agent was started on a data directory before.
func used(dir string) bool {
	for _, file := range []string{gpusFile, rosterFile} {
		if _, err := os.Lstat(filepath.Join(dir, file)); err == nil {
			return true
		}
	}
	tasks, err := os.ReadDir(filepath.Join(dir, tasksFolder))
	return err == nil && len(tasks) > 0
}
