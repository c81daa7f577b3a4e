package printed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
)

const (
	// stateFile, in a task directory, has how far the log is in the metrics file.
	stateFile = "printed"
	maxState  = 4 << 20
)

// state says that the log, up to an offset, is in the first bytes of the metrics file, once the lines are appended. It is
// written before they are, so that the next agent can tell whether they were.
type state struct {
	Log     uint64 `json:"log"`
	Count   int64  `json:"count,omitempty"`
	Metrics int64  `json:"metrics"`
	Lines   string `json:"lines,omitempty"`
}

// file is the metrics file of a task, as long as its program does not write it.
type file struct {
	dir     string
	premade bool // it was there, and empty, before the program
	saved   state
}

// openFile takes over from an earlier agent. Without a readable state, a file that is there is the program's.
func openFile(dir string, premade bool) *file {
	f := &file{dir: dir, premade: premade}
	data, err := taskfile.Read(dir, stateFile, maxState)
	if err != nil || json.Unmarshal(data, &f.saved) != nil || f.saved.Metrics < int64(len(f.saved.Lines)) {
		f.saved = state{}
	}
	return f
}

// settle appends what is missing of the saved lines. ours: only these lines were ever in the file.
func (f *file) settle() (ours bool, err error) {
	size, _, err := taskfile.Size(f.dir, shim.MetricsFile)
	there := err == nil
	switch {
	case errors.Is(err, taskfile.ErrNotRegular), errors.Is(err, taskfile.ErrNames):
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("look for metrics: %w", err)
	}
	lines := int64(len(f.saved.Lines))
	missing := f.saved.Metrics - size
	switch {
	case missing < 0, missing > lines, there && f.saved.Metrics == 0 && (size > 0 || !f.premade):
		return false, nil
	case lines == 0:
		return true, nil
	}
	written, text := f.saved.Lines[:lines-missing], []byte(f.saved.Lines[lines-missing:])
	if ours, err := f.endsWith(written); !ours || err != nil {
		return false, err
	}
	switch {
	case missing == 0:
	case there:
		err = taskfile.Append(f.dir, shim.MetricsFile, text)
	default:
		err = taskfile.Create(f.dir, shim.MetricsFile, text)
	}
	if errors.Is(err, fs.ErrExist) {
		return false, nil // the program was quicker
	}
	if err != nil {
		return false, fmt.Errorf("write metrics that a task printed: %w", err)
	}
	f.saved.Lines = ""
	return true, nil
}

// endsWith reports whether the file has a text behind what it had before the saved lines.
func (f *file) endsWith(text string) (bool, error) {
	if text == "" {
		return true, nil
	}
	file, err := taskfile.Open(f.dir, shim.MetricsFile)
	if err != nil {
		return false, fmt.Errorf("read metrics that a task printed: %w", err)
	}
	defer file.Close()
	found := make([]byte, len(text))
	if _, err = file.ReadAt(found, f.saved.Metrics-int64(len(f.saved.Lines))); err != nil {
		return false, fmt.Errorf("read metrics that a task printed: %w", err)
	}
	return string(found) == text, nil
}

// append adds lines, which were printed up to an offset of the log. kept: they are recorded, so that the next settle adds
// what is missing of them, if there is an error.
func (f *file) append(log uint64, count int64, lines []byte) (kept bool, err error) {
	if ours, err := f.settle(); !ours || err != nil {
		return !ours && err == nil, err
	}
	next := state{Log: log, Count: count, Metrics: f.saved.Metrics + int64(len(lines)), Lines: string(lines)}
	data, err := json.Marshal(next)
	if err == nil {
		err = taskfile.Replace(f.dir, stateFile, data)
	}
	if err != nil {
		return false, fmt.Errorf("record how far the output of a task was read: %w", err)
	}
	f.saved = next
	_, err = f.settle()
	return true, err
}
