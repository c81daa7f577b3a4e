package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// Interval is how often a task's files are looked at.
	Interval = 250 * time.Millisecond
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

// Finding is something to report of a task.
type Finding struct {
	Body *v1.Report
	At   time.Time
	// Latest names what only the latest of counts.
	Latest string
	// Acked, which may be nil, is called when the coordinators have it.
	Acked func()

	// kept: it is to be in the journal; events is the offset behind the event that told of it.
	kept   bool
	events int64
}

// Watcher looks at what a task writes: metrics, events and checkpoints. It is
// used by one goroutine. A restarted agent reads the files again, for the latest
// progress and phase; checkpoints and phases that were found before, and not
// acknowledged, come from the journal, as they were and in their order.
//
// The task may have written anything, or put anything in the place of its files: what is read is bounded, and nothing outside is
// (packages taskfile and tree).
type Watcher struct {
	dir             string
	log             *slog.Logger
	remark          func(text string) // says something in the task's log
	journal         *journal
	metrics, events taskfile.Tail
	cwd             string
	checkpoints     checkpointDir
	places          places

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

// Config says what to watch.
type Config struct {
	// Dir is the task's directory, Spec what it was launched with.
	Dir  string
	Spec shim.Spec
	// MetricsBytes and EventsBytes bound what is read of these files; 0: nothing does.
	MetricsBytes, EventsBytes int64
	// Roots are directories in which checkpoints may lie, beside those of the job.
	Roots []string
	// Hidden is a directory of which only what is the job's own counts.
	Hidden string
	// Renames hears of renames; nil: they are told by the times of files alone.
	Renames *Renames
	Log     *slog.Logger
}

// New begins to watch a task, before its command is started. End ends it.
func New(cfg Config) *Watcher {
	w := newWatcher(cfg)
	if cfg.Renames != nil {
		w.hear(cfg.Renames)
	}
	return w
}

func newWatcher(cfg Config) *Watcher {
	spec := cfg.Spec
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{
		dir: cfg.Dir, log: log.With("dir", cfg.Dir), remark: func(string) {},
		metrics: taskfile.Tail{Dir: cfg.Dir, Name: shim.MetricsFile, Most: cfg.MetricsBytes},
		events:  taskfile.Tail{Dir: cfg.Dir, Name: shim.EventsFile, Most: cfg.EventsBytes},
		cwd:     spec.Cwd, refused: make(map[string]bool),
	}
	if spec.Cwd == "" && len(spec.Dirs) > 0 {
		w.cwd = spec.Dirs[0]
	}
	w.checkpoints = newCheckpointDir(cfg.Dir, spec.CheckpointDir)
	w.checkpoints.log = log
	w.places = placesOf(spec, cfg.Roots)
	w.places.hidden = cfg.Hidden
	return w
}

// OnRemark names what says something in the task's log.
func (w *Watcher) OnRemark(remark func(text string)) { w.remark = remark }

// hear lets the watcher hear of renames in the checkpoint directory.
func (w *Watcher) hear(m *Renames) {
	if w.checkpoints.dir == "" {
		return
	}
	// The shim makes it, too, and says so when it cannot.
	_ = os.MkdirAll(w.checkpoints.dir, 0o755)
	w.checkpoints.renames = m
	m.follow(w.checkpoints.dir)
}

// End ends the watching.
func (w *Watcher) End() {
	if w.checkpoints.renames != nil {
		w.checkpoints.renames.forget(w.checkpoints.dir)
	}
}

// load takes up what an earlier agent found, and returns what nobody has acknowledged.
func (w *Watcher) load(ctx context.Context) []Finding {
	if w.journal != nil {
		return nil
	}
	w.checkpoints.load()
	w.journal = openJournal(w.dir)
	if size, _, err := taskfile.Size(w.dir, shim.EventsFile); err != nil || size < w.journal.eventsDone {
		w.journal.eventsDone = 0 // it was written anew
	}
	w.toldAs, w.phase = w.journal.phase, w.journal.phase
	var found []Finding
	for _, e := range w.journal.unacked {
		f := Finding{Body: e.body, At: e.at, Acked: func() { w.journal.ack(e.n) }}
		if e.body.GetPhase() != nil {
			f.Latest = "phase"
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
func (w *Watcher) keep(found []Finding) []Finding {
	kept := found[:0]
	for _, f := range found {
		if f.kept {
			f.At = time.Now()
			n, err := w.journal.add(f.Body, f.At, f.events)
			if errors.Is(err, errUnsayable) {
				w.log.Error("what a task did cannot be told", "error", err)
				continue
			}
			if err != nil {
				w.log.Error("cannot keep what a task did; it is lost with the agent", "error", err)
			}
			f.Acked = func() { w.journal.ack(n) }
		}
		kept = append(kept, f)
	}
	return kept
}

// scan returns what is new since the command was started; it must not be called before. last: the task has ended, nothing will be
// written any more, and all is looked at. It ends early when ctx does.
func (w *Watcher) scan(ctx context.Context, now time.Time, last bool) []Finding {
	known := w.load(ctx)
	var found []Finding
	for more := true; more; {
		var some []Finding
		some, more = w.look(ctx, now, last)
		found = append(found, w.keep(some)...)
		more = more && last && ctx.Err() == nil
	}
	return append(known, found...)
}

// look returns some of what is new, and whether there is more already.
func (w *Watcher) look(ctx context.Context, now time.Time, last bool) (found []Finding, more bool) {
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
		found = append(found, Finding{Latest: "phase", kept: true, Body: &v1.Report{Body: &v1.Report_Phase{Phase: &v1.PhaseReport{Phase: w.phase}}}})
	}
	if w.moved && (last && !more || now.Sub(w.progressAt) >= progressInterval) {
		w.moved, w.progressAt = false, now
		found = append(found, Finding{Latest: "progress", Body: &v1.Report{Body: &v1.Report_Progress{Progress: &v1.ProgressReport{Step: w.step, TotalSteps: w.total}}}})
	}
	return found, more
}

// read hands on what is new in a file, as much as one look may read.
func (w *Watcher) read(file *taskfile.Tail, take func(taskfile.Line)) (more bool) {
	full := file.Full()
	more, err := file.Look(maxLookBytes, func(line taskfile.Line) bool {
		take(line)
		return true
	})
	switch {
	case err != nil && !w.refused[file.Name]:
		w.refused[file.Name] = true
		w.say("mind: %s of this task is not read: %v", file.Name, taskfile.Cause(err))
	case file.Full() && !full:
		w.say("mind: %s of this task is longer than %d MiB: what is beyond is not read (%s_bytes of the agent)", file.Name, file.Most>>20, strings.TrimSuffix(file.Name, ".jsonl"))
	}
	return more
}

// say tells the task's user something, in the log of the task, and the agent's. The end of a task is too late for the former.
func (w *Watcher) say(format string, args ...any) {
	if w.remarks++; w.remarks > maxRemarks {
		return
	}
	text := fmt.Sprintf(format, args...)
	w.log.Warn("said to a task's user", "text", text)
	w.remark(text)
}

// event takes up a line of the events file. What it does not understand it leaves alone: the file is the program's.
func (w *Watcher) event(line taskfile.Line) {
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
func (w *Watcher) passOver() (passed int) {
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
func (w *Watcher) take(ctx context.Context, left *int) (found []Finding) {
	for len(w.waiting) > 0 && ctx.Err() == nil {
		e := w.waiting[0]
		f, ok := Finding{}, false
		if e.Event == "checkpoint" {
			had := *left
			var err error
			f, ok, err = w.checkpoint(ctx, e, left)
			if errors.Is(err, tree.ErrTooLarge) && had < w.checkpoints.most {
				return found
			}
			if err != nil && ctx.Err() == nil {
				w.say("mind: checkpoint %.200q is not registered: %v", e.Path, taskfile.Cause(err))
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
func (w *Watcher) checkpoint(ctx context.Context, e keptEvent, left *int) (f Finding, ok bool, err error) {
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
func (w *Watcher) dealtWith(end int64) bool {
	if end < w.journal.eventsDone && w.eventsRead > end {
		w.journal.eventsDone = 0 // the file was written anew
	}
	w.eventsRead = end
	return end <= w.journal.eventsDone
}

func (w *Watcher) metric(line []byte) {
	var m struct {
		Step       *float64 `json:"step"`
		TotalSteps float64  `json:"total_steps"`
		MaxSteps   float64  `json:"max_steps"`
	}
	if line = tasks.PlainJSON(line); line != nil && json.Unmarshal(line, &m) == nil && m.Step != nil {
		w.progress(*m.Step, max(m.TotalSteps, m.MaxSteps))
	}
}

func (w *Watcher) progress(step, total float64) {
	s, t := int64(step), int64(total)
	if t <= 0 {
		t = w.total
	}
	if s != w.step || t != w.total {
		w.step, w.total, w.moved = s, t, true
	}
}
