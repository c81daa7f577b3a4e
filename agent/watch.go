package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive/tasks"
)

const (
	// watchInterval is how often a task's files are looked at.
	watchInterval = 250 * time.Millisecond
	// progressInterval is how often progress is reported, at most.
	progressInterval = time.Second
	// maxEventLine bounds one line of the events file; longer ones are skipped.
	maxEventLine = 1 << 20
)

// finding is something to report of a task.
type finding struct {
	body   *v1.Report
	at     time.Time
	latest string
	// registered names the checkpoint, to be remembered once it is known.
	registered string
}

// watcher looks at what a task writes: metrics, events and checkpoints. It is
// used by one goroutine. A restarted agent reads everything again: what counts
// is the latest progress and phase, and checkpoints are remembered on disk.
type watcher struct {
	metrics, events tailFile
	cwd             string
	checkpoints     checkpointDir

	step, total   int64
	moved         bool
	progressAt    time.Time
	phase, toldAs v1.JobPhase_Value
}

func newWatcher(dir string, spec shim.Spec) *watcher {
	w := &watcher{
		metrics: tailFile{name: filepath.Join(dir, metricsFile)},
		events:  tailFile{name: filepath.Join(dir, eventsFile)},
		cwd:     spec.Cwd,
	}
	if spec.Cwd == "" && len(spec.Dirs) > 0 {
		w.cwd = spec.Dirs[0]
	}
	w.checkpoints = newCheckpointDir(dir, spec.CheckpointDir)
	return w
}

// scan returns what is new since the command was started; it must not be
// called before. last: the task has ended, nothing will be written any more.
func (w *watcher) scan(now time.Time, last bool) []finding {
	w.checkpoints.load()
	var found []finding
	w.events.read(func(line []byte, _ int64) bool {
		found = w.event(found, line)
		return true
	})
	var latest []byte
	w.metrics.read(func(line []byte, _ int64) bool {
		// The last that names a step; programs print other things, too.
		if bytes.Contains(line, []byte(`"step"`)) {
			latest = append(latest[:0], line...)
		}
		return true
	})
	if latest != nil {
		w.metric(latest)
	}
	found = append(found, w.checkpoints.scan(last)...)
	if w.phase != w.toldAs {
		w.toldAs = w.phase
		found = append(found, finding{latest: "phase", body: &v1.Report{Body: &v1.Report_Phase{Phase: &v1.PhaseReport{Phase: w.phase}}}})
	}
	if w.moved && (last || now.Sub(w.progressAt) >= progressInterval) {
		w.moved, w.progressAt = false, now
		found = append(found, finding{latest: "progress", body: &v1.Report{Body: &v1.Report_Progress{Progress: &v1.ProgressReport{Step: w.step, TotalSteps: w.total}}}})
	}
	return found
}

// event is a line of the events file. What it does not understand it leaves
// alone: the file is the program's.
func (w *watcher) event(found []finding, line []byte) []finding {
	var e struct {
		Event      string          `json:"event"`
		Path       string          `json:"path"`
		Phase      string          `json:"phase"`
		Step       float64         `json:"step"`
		TotalSteps float64         `json:"total_steps"`
		Metrics    json.RawMessage `json:"metrics"`
	}
	if json.Unmarshal(line, &e) != nil {
		return found
	}
	switch e.Event {
	case "phase":
		if phase, ok := v1.JobPhase_Value_value[strings.ToUpper(e.Phase)]; ok {
			w.phase = v1.JobPhase_Value(phase)
		}
	case "progress":
		w.progress(e.Step, e.TotalSteps)
	case "checkpoint":
		if e.Path == "" || !utf8.ValidString(e.Path) {
			return found
		}
		path := e.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(w.cwd, e.Path)
			if _, err := os.Lstat(path); err != nil {
				path = filepath.Join(w.checkpoints.dir, e.Path)
			}
		}
		if f, ok := w.checkpoints.event(path, int64(e.Step), e.Metrics); ok {
			found = append(found, f)
		}
	}
	return found
}

func (w *watcher) metric(line []byte) {
	var m struct {
		Step       *float64 `json:"step"`
		TotalSteps float64  `json:"total_steps"`
		MaxSteps   float64  `json:"max_steps"`
	}
	if line = tasks.PlainJSON(line); line != nil && json.Unmarshal(line, &m) == nil && m.Step != nil {
		w.progress(*m.Step, max(m.TotalSteps, m.MaxSteps))
	}
}

func (w *watcher) progress(step, total float64) {
	s, t := int64(step), int64(total)
	if t <= 0 {
		t = w.total
	}
	if s != w.step || t != w.total {
		w.step, w.total, w.moved = s, t, true
	}
}

// tailFile reads the lines that are appended to a file.
type tailFile struct {
	name   string
	offset int64
	size   int64 // at which there was nothing more to read
}

// read calls take for each whole line that is new, with the offset behind it,
// until take has had enough. A file that shrank is read from its start.
func (f *tailFile) read(take func(line []byte, end int64) (more bool)) {
	info, err := os.Stat(f.name)
	if err != nil || info.Size() == f.size {
		return
	}
	if info.Size() < f.offset {
		f.offset = 0
	}
	file, err := os.Open(f.name)
	if err != nil {
		return
	}
	defer file.Close()
	// The size up to which all was read, once it was.
	f.size = -1
	buf := make([]byte, 64<<10)
	for {
		n, err := file.ReadAt(buf, f.offset)
		chunk := buf[:n]
		if bytes.IndexByte(chunk, '\n') < 0 {
			switch {
			case err != nil:
				if errors.Is(err, io.EOF) {
					f.size = f.offset + int64(n)
				}
				return
			case n < maxEventLine:
				buf = make([]byte, 2*n)
			default:
				f.offset += int64(n) // a line that nobody meant to be read
			}
			continue
		}
		for {
			end := bytes.IndexByte(chunk, '\n')
			if end < 0 {
				break
			}
			f.offset += int64(end) + 1
			if line := bytes.TrimSpace(chunk[:end]); len(line) > 0 && !take(line, f.offset) {
				return
			}
			chunk = chunk[end+1:]
		}
	}
}
