package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/durable"
)

// levelFile is the file beside the log in which the feature level is noted. The state has the level, too, but the log
// must be opened before there is a state.
const levelFile = "feature-level"

// NoteLevel notes that the cluster has reached a feature level. The note is on disk when it returns. A noted level is
// never lowered, and the file is not written if it has this level already.
func NoteLevel(dir string, level uint32) error {
	if noted, err := NotedLevel(dir); err == nil && noted >= level {
		return nil
	}
	if err := durable.WriteFile(filepath.Join(dir, levelFile), levelNote(level), 0o600); err != nil {
		return fmt.Errorf("note the feature level %d: %w", level, err)
	}
	return nil
}

// NotedLevel returns the level that NoteLevel noted; 0: none. A damaged file is an error.
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
