package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/agent/tree"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive/tasks"
)

const (
	// watchInterval is how often a task's files are looked at.
	watchInterval = 250 * time.Millisecond
	// progressInterval is how often progress is reported, at most.
	progressInterval = time.Second
	// maxLookBytes bounds what one look reads of each file.
	maxLookBytes = 4 << 20
	// maxFreshCheckpoints is how many checkpoints one look takes out of the events: a program that tells of more at once has
	// written over the first of them, or means no good.
	maxFreshCheckpoints = 16
	// maxCheckpointMetrics bounds what is told with a checkpoint, as the coordinators do.
	maxCheckpointMetrics = 16 << 10
	// maxRemarks bounds what is said in the log of a task about what it did.
	maxRemarks = 20
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
//
// The task may have written anything, or put anything in the place of its files: what is read is bounded, and nothing outside is
// (packages taskfile and tree).
type watcher struct {
	dir             string
	log             *slog.Logger
	remark          func(text string) // says something in the task's log
	journal         *journal
	metrics, events taskfile.Tail
	cwd             string
	checkpoints     checkpointDir
	// outputs are the directories that were made for what the task writes.
	outputs []string
	places  places

	// eventsRead is the offset behind the last event of a checkpoint or a result; waiting are those that were read and not taken.
	eventsRead int64
	waiting    []keptEvent
	// results counts those that were taken, remarks what was said.
	results, remarks int
	refused          map[string]bool // files of which it was said that they are not read
	// endedWell: the program ended with exit code 0.
	endedWell bool

	step, total   int64
	moved         bool
	progressAt    time.Time
	phase, toldAs v1.JobPhase_Value
}

// event is a line of the events file.
type event struct {
	Event      string          `json:"event"`
	Path       string          `json:"path"`
	Phase      string          `json:"phase"`
	Step       float64         `json:"step"`
	TotalSteps float64         `json:"total_steps"`
	Metrics    json.RawMessage `json:"metrics"`
}

// keptEvent is an event that is told once.
type keptEvent struct {
	event
	line []byte
	end  int64 // of the line
}

// limits bound what is read of a task's files.
type limits struct{ metrics, events int64 }

func newWatcher(dir string, spec shim.Spec, most limits, roots ...string) *watcher {
	w := &watcher{
		dir: dir, log: slog.New(slog.DiscardHandler), remark: func(string) {},
		metrics: taskfile.Tail{Dir: dir, Name: metricsFile, Most: most.metrics},
		events:  taskfile.Tail{Dir: dir, Name: eventsFile, Most: most.events},
		cwd:     spec.Cwd, refused: make(map[string]bool),
	}
	if spec.Cwd == "" && len(spec.Dirs) > 0 {
		w.cwd = spec.Dirs[0]
	}
	w.checkpoints = newCheckpointDir(dir, spec.CheckpointDir)
	w.places = placesOf(spec, roots)
	return w
}

// begin lets the watcher hear of renames in the checkpoint directory, before the command is started; end ends that.
func (w *watcher) begin(m *moves, log *slog.Logger) {
	w.log, w.checkpoints.log = log.With("dir", w.dir), log
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
func (w *watcher) load(ctx context.Context) []finding {
	if w.journal != nil {
		return nil
	}
	w.checkpoints.load()
	w.journal = openJournal(w.dir)
	if size, _, err := taskfile.Size(w.dir, eventsFile); err != nil || size < w.journal.eventsDone {
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
			left := maxLookEntries
			m, err := manifestWithin(ctx, w.places, c.GetPath(), &left)
			if ctx.Err() == nil && (err != nil || m.digest != c.GetManifestDigest()) {
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

// keep puts findings into the journal that are to be there. What cannot be said is left out: it would be tried again for ever.
func (w *watcher) keep(found []finding) []finding {
	kept := found[:0]
	for _, f := range found {
		if f.kept {
			f.at = time.Now()
			n, err := w.journal.add(f.body, f.at, f.events)
			if errors.Is(err, errUnsayable) {
				w.log.Error("what a task did cannot be told", "error", err)
				continue
			}
			if err != nil {
				w.log.Error("cannot keep what a task did; it is lost with the agent", "error", err)
			}
			f.acked = func() { w.journal.ack(n) }
		}
		kept = append(kept, f)
	}
	return kept
}

// scan returns what is new since the command was started; it must not be called before. last: the task has ended, nothing will be
// written any more, and all is looked at. It ends early when ctx does.
func (w *watcher) scan(ctx context.Context, now time.Time, last bool) []finding {
	known := w.load(ctx)
	var found []finding
	for more := true; more; {
		var some []finding
		some, more = w.look(ctx, now, last)
		found = append(found, w.keep(some)...)
		more = more && last && ctx.Err() == nil
	}
	return append(known, found...)
}

// look returns some of what is new, and whether there is more already.
func (w *watcher) look(ctx context.Context, now time.Time, last bool) (found []finding, more bool) {
	left := w.checkpoints.most
	if len(w.waiting) == 0 {
		more = w.read(&w.events, w.event)
		if passed := w.passOver(); passed > 0 {
			w.say("mind: %d checkpoints that this task told of are not registered: of those that are told at once, the last %d are", passed, maxFreshCheckpoints)
		}
	}
	found = w.take(ctx, &left)
	more = more || len(w.waiting) > 0
	var latest []byte
	more = w.read(&w.metrics, func(line taskfile.Line) {
		// The last that names a step; programs print other things, too.
		if !line.Long && bytes.Contains(line.Text, []byte(`"step"`)) {
			latest = append(latest[:0], line.Text...)
		}
	}) || more
	if latest != nil {
		w.metric(latest)
	}
	complete, err := w.checkpoints.scan(ctx, w.places, last && w.endedWell && !more, &left)
	found = append(found, complete...)
	if err != nil && !w.refused[w.checkpoints.dir] {
		w.refused[w.checkpoints.dir] = true
		w.say("mind: checkpoints in %s are not registered: %v", w.checkpoints.dir, err)
	}
	more = more || w.checkpoints.short
	if w.phase != w.toldAs {
		w.toldAs = w.phase
		found = append(found, finding{latest: "phase", kept: true, body: &v1.Report{Body: &v1.Report_Phase{Phase: &v1.PhaseReport{Phase: w.phase}}}})
	}
	if w.moved && (last && !more || now.Sub(w.progressAt) >= progressInterval) {
		w.moved, w.progressAt = false, now
		found = append(found, finding{latest: "progress", body: &v1.Report{Body: &v1.Report_Progress{Progress: &v1.ProgressReport{Step: w.step, TotalSteps: w.total}}}})
	}
	return found, more
}

// read hands on what is new in a file, as much as one look may read.
func (w *watcher) read(file *taskfile.Tail, take func(taskfile.Line)) (more bool) {
	full := file.Full()
	more, err := file.Look(maxLookBytes, func(line taskfile.Line) bool {
		take(line)
		return true
	})
	switch {
	case err != nil && !w.refused[file.Name]:
		w.refused[file.Name] = true
		w.say("mind: %s of this task is not read: %v", file.Name, cause(err))
	case file.Full() && !full:
		w.say("mind: %s of this task is longer than %d MiB: what is beyond is not read (%s_bytes of the agent)", file.Name, file.Most>>20, strings.TrimSuffix(file.Name, ".jsonl"))
	}
	return more
}

// cause is an error without the path that the message names.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// say tells the task's user something, in the log of the task, and the agent's. The end of a task is too late for the former.
func (w *watcher) say(format string, args ...any) {
	if w.remarks++; w.remarks > maxRemarks {
		return
	}
	text := fmt.Sprintf(format, args...)
	w.log.Warn("said to a task's user", "text", text)
	w.remark(text)
}

// event takes up a line of the events file. What it does not understand it leaves alone: the file is the program's.
func (w *watcher) event(line taskfile.Line) {
	var e event
	text := line.Text
	if !line.Long {
		text = plainEvent(text)
	}
	if line.Long || text == nil || json.Unmarshal(text, &e) != nil {
		return
	}
	switch e.Event {
	case "phase":
		if phase, ok := v1.JobPhase_Value_value[strings.ToUpper(e.Phase)]; ok {
			w.phase = v1.JobPhase_Value(phase)
		}
	case "progress":
		w.progress(e.Step, e.TotalSteps)
	case "checkpoint", "evaluation_result":
		// The directory may be at work anew.
		if !w.dealtWith(line.End) {
			w.waiting = append(w.waiting, keptEvent{e, slices.Clone(text), line.End})
		}
	}
}

// passOver drops all but the newest of the checkpoints that wait, and returns how many that were.
func (w *watcher) passOver() (passed int) {
	isCheckpoint := func(e keptEvent) bool { return e.Event == "checkpoint" }
	for _, e := range w.waiting {
		if isCheckpoint(e) {
			passed++
		}
	}
	passed = max(0, passed-maxFreshCheckpoints)
	drop := passed
	w.waiting = slices.DeleteFunc(w.waiting, func(e keptEvent) bool {
		if drop > 0 && isCheckpoint(e) {
			drop--
			return true
		}
		return false
	})
	return passed
}

// take makes findings of the events that wait, in their order. What one look may not visit any more waits for the next.
func (w *watcher) take(ctx context.Context, left *int) (found []finding) {
	for len(w.waiting) > 0 && ctx.Err() == nil {
		e := w.waiting[0]
		f, ok := finding{}, false
		if e.Event == "checkpoint" {
			had := *left
			var err error
			f, ok, err = w.checkpoint(ctx, e, left)
			if errors.Is(err, tree.ErrTooLarge) && had < w.checkpoints.most {
				return found
			}
			if err != nil && ctx.Err() == nil {
				w.say("mind: checkpoint %.200q is not registered: %v", e.Path, cause(err))
			}
		} else {
			f, ok = w.result(e.line)
		}
		if ctx.Err() != nil {
			return found
		}
		w.waiting = w.waiting[1:]
		w.journal.eventsDone = e.end
		if ok {
			f.events = e.end
			found = append(found, f)
		} else if err := w.journal.passed(e.end); err != nil {
			w.log.Error("cannot keep what a task did", "error", err)
		}
	}
	return found
}

// checkpoint looks at the directory that an event names.
func (w *watcher) checkpoint(ctx context.Context, e keptEvent, left *int) (f finding, ok bool, err error) {
	if e.Path == "" {
		return f, false, nil
	}
	path := e.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.cwd, e.Path)
		if _, err := os.Lstat(path); err != nil {
			path = filepath.Join(w.checkpoints.dir, e.Path)
		}
	}
	metrics := string(e.Metrics)
	if len(metrics) > maxCheckpointMetrics {
		w.say("mind: the metrics of checkpoint %.200q are not kept: they take %d bytes; at most %d are kept", e.Path, len(metrics), maxCheckpointMetrics)
		metrics = ""
	}
	return w.checkpoints.event(ctx, w.places, filepath.Clean(path), int64(e.Step), metrics, left)
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
