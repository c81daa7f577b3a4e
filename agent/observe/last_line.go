package observe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/mindcoordinator/mind/agent/taskfile"
)

// endLastLines ends the last lines of the files of a task that has ended.
func (w *Watcher) endLastLines() {
	for _, name := range []string{w.metrics.Name, w.events.Name} {
		if err := endLastLine(w.dir, name); err != nil {
			w.log.Warn("the last line of a task's file cannot be ended, and is not read if it has no newline", "file", name, "error", err)
		}
	}
}

// endLastLine ends the last line of a file of a task that has ended. Programs write whole objects without a newline behind
// the last one. A line that a killed program left half-written stays as it is.
func endLastLine(dir, name string) error {
	file, err := taskfile.Open(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	tail := make([]byte, 1)
	if _, err = file.ReadAt(tail, size-1); err != nil || tail[0] == '\n' {
		return err
	}
	tail = make([]byte, min(size, taskfile.MaxLine))
	if _, err = file.ReadAt(tail, size-int64(len(tail))); err != nil {
		return fmt.Errorf("read the last line of %s: %w", name, err)
	}
	begin := bytes.LastIndexByte(tail, '\n')
	if begin < 0 && size > taskfile.MaxLine || plainEvent(bytes.TrimSpace(tail[begin+1:])) == nil {
		return nil
	}
	return taskfile.Append(dir, name, []byte("\n"))
}
