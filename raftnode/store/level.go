package store

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/durable"
)

// WALLevel is the feature level from which a log is moved to WAL by itself. A cluster reaches it when all its voters run a
// version of Mind that knows such a log, and no earlier version can be started on its data any more.
const WALLevel = 3

// levelFile is the note of the feature level, beside the log. The state has the level as well, but the log must be opened
// before there is a state.
const levelFile = "feature-level"

// NoteLevel notes that the cluster has reached a feature level. The note is on disk when it returns. It is never lowered, and
// not written again when it says so already.
func NoteLevel(dir string, level uint32) error {
	if noted, err := NotedLevel(dir); err == nil && noted >= level {
		return nil
	}
	if err := durable.WriteFile(filepath.Join(dir, levelFile), levelNote(level), 0o600); err != nil {
		return fmt.Errorf("note the feature level %d: %w", level, err)
	}
	return nil
}

// NotedLevel is the level that NoteLevel noted; 0: none. A damaged note is an error.
func NotedLevel(dir string) (uint32, error) {
	name := filepath.Join(dir, levelFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the noted feature level: %w", err)
	}
	var level uint32
	if _, err := fmt.Sscanf(string(text), "%d", &level); err != nil || string(text) != string(levelNote(level)) {
		return 0, fmt.Errorf("the note of the feature level, %s, is damaged", name)
	}
	return level, nil
}

func levelNote(level uint32) []byte {
	number := fmt.Sprint(level)
	return fmt.Appendf(nil, "%s %08x\n", number, crc32.Checksum([]byte(number), castagnoli))
}

// choose says which kind of log a directory is to have. What is configured counts. Otherwise it is WAL, unless an earlier
// version of Mind may have to read the log again.
func (c Config) choose(place Place) (string, error) {
	if c.Log == Bolt || place.Log == WAL {
		return cmp.Or(c.Log, WAL), nil
	}
	isNew, err := c.isNew(place)
	if err != nil || isNew || c.notedLevel() >= WALLevel {
		return WAL, err
	}
	if c.Log == WAL {
		c.Logger.Warn("log_store is wal: the log is moved, and earlier versions of mind cannot read it any more; "+
			"to go back to one, start this version once with log_store: boltdb", "moved_by_itself_from_feature_level", WALLevel)
		return WAL, nil
	}
	c.Logger.Info("the log stays in BoltDB, which earlier versions of mind can read: the first start after the cluster's feature "+
		"level was raised moves it to wal", "moved_from_feature_level", WALLevel)
	return Bolt, nil
}

// notedLevel takes a damaged note for none: it is written again, and the log is moved later.
func (c Config) notedLevel() uint32 {
	level, err := NotedLevel(c.Dir)
	if err != nil {
		c.Logger.Warn("the note of the feature level cannot be read and counts as absent", "error", err)
	}
	return level
}

// isNew says whether a directory has no entry, no vote and no snapshot. Its raft.db may have been made already.
func (c Config) isNew(place Place) (bool, error) {
	if place.used {
		return false, nil
	}
	// The library keeps them in a folder of that name in the one that it is given.
	snapshots, err := os.ReadDir(filepath.Join(c.Dir, "snapshots", "snapshots"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("look for snapshots: %w", err)
	}
	return len(snapshots) == 0, nil
}
