package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
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
	// kept: it is to be in the journal; events is the offset behind the event that told of it, acked what notes there that the
	// coordinators have it.
	kept   bool
	events int64
	acked  func()
}

// watcher looks at what a task writes: metrics, events and checkpoints. It is
// used by one goroutine. A restarted agent reads the files again, for the latest
// progress and phase; checkpoints and phases that were found before, and not
// acknowledged, come from the journal, as they were and in their order.
type watcher struct {
	dir             string
	log             *slog.Logger
	journal         *journal
	metrics, events tailFile
	cwd             string
	checkpoints     checkpointDir

	// eventsRead is the offset behind the last event of a checkpoint or a result.
	eventsRead int64
	// results counts those that were taken.
	results int
	// endedWell: the program ended with exit code 0.
	endedWell bool

	step, total   int64
	moved         bool
	progressAt    time.Time
	phase, toldAs v1.JobPhase_Value
}

func newWatcher(dir string, spec shim.Spec) *watcher {
	w := &watcher{
		dir: dir, log: slog.New(slog.DiscardHandler),
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

// begin lets the watcher hear of renames in the checkpoint directory, before the command is started; end ends that.
func (w *watcher) begin(m *moves, log *slog.Logger) {
	w.log = log
	if w.checkpoints.dir == "" {
		return
	}
	// The shim makes it, too, and says so when it cannot.
	_ = os.MkdirAll(w.checkpoints.dir, 0o755)
	w.checkpoints.moves = m
	m.follow(w.checkpoints.dir)
}

func (w *watcher) end() {
	if w.checkpoints.moves != nil {
		w.checkpoints.moves.forget(w.checkpoints.dir)
	}
}

// load takes up what an earlier agent found, and returns what nobody has acknowledged.
func (w *watcher) load() []finding {
	if w.journal != nil {
		return nil
	}
	w.checkpoints.load()
	w.journal = openJournal(w.dir)
	if info, err := os.Stat(w.events.name); err != nil || info.Size() < w.journal.eventsDone {
		w.journal.eventsDone = 0 // it was written anew
	}
	w.toldAs, w.phase = w.journal.phase, w.journal.phase
	var found []finding
	for _, e := range w.journal.unacked {
		f := finding{body: e.body, at: e.at, acked: func() { w.journal.ack(e.n) }}
		if e.body.GetPhase() != nil {
			f.latest = "phase"
		}
		if c := e.body.GetCheckpoint(); c != nil {
			digest, _, err := manifest(c.GetPath())
			if err != nil || digest != c.GetManifestDigest() {
				w.log.Warn("a checkpoint is not registered: it was changed or removed before the coordinators could be told", "path", c.GetPath(), "step", c.GetStep())
				w.journal.ack(e.n)
				continue
			}
		}
		found = append(found, f)
	}
	w.journal.unacked = nil
	for path, digest := range w.journal.digests {
		w.checkpoints.known[path] = digest
	}
	return found
}

// keep puts findings into the journal that are to be there.
func (w *watcher) keep(found []finding) []finding {
	for i, f := range found {
		if !f.kept {
			continue
		}
		at := time.Now()
		n, err := w.journal.add(f.body, at, f.events)
		if err != nil {
			w.log.Error("cannot keep what a task did; it is lost with the agent", "dir", w.dir, "error", err)
		}
		found[i].at, found[i].acked = at, func() { w.journal.ack(n) }
	}
	return found
}

// scan returns what is new since the command was started; it must not be
// called before. last: the task has ended, nothing will be written any more.
func (w *watcher) scan(now time.Time, last bool) []finding {
	known := w.load()
	return append(known, w.keep(w.look(now, last))...)
}

func (w *watcher) look(now time.Time, last bool) []finding {
	var found []finding
	w.events.read(func(line []byte, end int64) bool {
		found = w.event(found, line, end)
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
	found = append(found, w.checkpoints.scan(last && w.endedWell)...)
	if w.phase != w.toldAs {
		w.toldAs = w.phase
		found = append(found, finding{latest: "phase", kept: true, body: &v1.Report{Body: &v1.Report_Phase{Phase: &v1.PhaseReport{Phase: w.phase}}}})
	}
	if w.moved && (last || now.Sub(w.progressAt) >= progressInterval) {
		w.moved, w.progressAt = false, now
		found = append(found, finding{latest: "progress", body: &v1.Report{Body: &v1.Report_Progress{Progress: &v1.ProgressReport{Step: w.step, TotalSteps: w.total}}}})
	}
	return found
}

// event is a line of the events file. What it does not understand it leaves
// alone: the file is the program's.
func (w *watcher) event(found []finding, line []byte, end int64) []finding {
	var e struct {
		Event      string          `json:"event"`
		Path       string          `json:"path"`
		Phase      string          `json:"phase"`
		Step       float64         `json:"step"`
		TotalSteps float64         `json:"total_steps"`
		Metrics    json.RawMessage `json:"metrics"`
	}
	if line = plainEvent(line); line == nil || json.Unmarshal(line, &e) != nil {
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
		// The directory may be at work anew.
		if w.dealtWith(end) || e.Path == "" || !utf8.ValidString(e.Path) {
			return found
		}
		path := e.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(w.cwd, e.Path)
			if _, err := os.Lstat(path); err != nil {
				path = filepath.Join(w.checkpoints.dir, e.Path)
			}
		}
		w.journal.eventsDone = end
		if f, ok := w.checkpoints.event(path, int64(e.Step), e.Metrics); ok {
			f.events = end
			found = append(found, f)
		} else if err := w.journal.passed(end); err != nil {
			w.log.Error("cannot keep what a task did", "dir", w.dir, "error", err)
		}
	case "evaluation_result":
		if w.dealtWith(end) {
			return found
		}
		if f, ok := w.result(line); ok {
			w.journal.eventsDone, f.events = end, end
			found = append(found, f)
		}
	}
	return found
}

// dealtWith says whether an earlier agent took up the event that ends there: it is not looked at again.
func (w *watcher) dealtWith(end int64) bool {
	if end < w.journal.eventsDone && w.eventsRead > end {
		w.journal.eventsDone = 0 // the file was written anew
	}
	w.eventsRead = end
	return end <= w.journal.eventsDone
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
