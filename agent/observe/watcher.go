package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/agent/printed"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/safedir"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/series"
	"github.com/mindcoordinator/mind/archive/tasks"
)

const (
	// Interval is how often a task's files are looked at.
	Interval = 250 * time.Millisecond
	// progressInterval limits how often progress is reported.
	progressInterval = time.Second
	// maxLookBytes limits how much one look reads of each file.
	maxLookBytes = 4 << 20
	// maxFreshCheckpoints limits how many checkpoints one look takes from the events: a program that reports more at once
	// has overwritten the first of them, or is malicious.
	maxFreshCheckpoints = 16
	// maxCheckpointMetrics limits the metrics of a checkpoint. The coordinators have the same limit.
	maxCheckpointMetrics = 16 << 10
	// maxRemarks limits the watcher's remarks in a task's log.
	maxRemarks = 20
)

// Finding is something to report about a task.
type Finding struct {
	Body *v1.Report
	At   time.Time
	// Latest names a series of which only the latest finding counts.
	Latest string
	// Acked, if set, is called when the coordinators have the finding.
	Acked func()

	// kept: the finding must be in the journal; events is the offset behind its event.
	kept   bool
	events int64
}

// Series takes the lines of the metrics file, and saves them when told to (package series).
type Series interface {
	// Begin is called first, with the size and the change time of the file, and when the task was started.
	Begin(size, changedMillis, startedMillis int64)
	// Line takes one line. It returns false if there is no room for some of its numbers.
	Line(text []byte, end, atMillis int64) (room bool)
	// Save is called after each look; last: no more lines will follow.
	Save(now time.Time, last bool)
}

// Watcher finds new content in the files of a task: metrics, events and checkpoints. Only one goroutine may use it. A
// restarted agent reads the files again for the latest progress and phase. Checkpoints and phases that were found
// before but not acknowledged come from the journal, unchanged and in order.
//
// The task may write anything, or replace its files with anything: reads are bounded, and nothing outside the task's
// directories is read (packages taskfile and safedir).
type Watcher struct {
	dir             string
	log             *slog.Logger
	remark          func(text string) // writes a remark into the task's log
	journal         *journal
	metrics, events taskfile.Tail
	printed         *printed.Reader
	cwd             string
	checkpoints     checkpointDir
	places          places
	series          Series // nil: the lines are not needed
	denied          func(path string)

	// eventsRead is the offset behind the last event of a checkpoint or a result; waiting are the events that were read
	// but not yet handled.
	eventsRead int64
	waiting    []keptEvent
	// results counts the handled results, gates the gates, remarks the written remarks.
	results, gates, remarks int
	refused                 map[string]bool // files about which a remark said that they are not read
	// noPattern says what is wrong with the job's own pattern of printed metrics.
	noPattern error
	// deaf: the last look at what the task prints failed.
	deaf bool
	// endedWell: the program has ended with exit code 0.
	endedWell bool

	step, total   int64
	moved         bool
	progressAt    time.Time
	phase, toldAs v1.JobPhase_Value
	// reports: the program writes events.
	reports bool
}

// event is a line of the events file.
type event struct {
	Event      string          `json:"event"`
	Path       string          `json:"path"`
	Phase      string          `json:"phase"`
	Step       float64         `json:"step"`
	TotalSteps float64         `json:"total_steps"`
	Metrics    json.RawMessage `json:"metrics"`
	Kind       string          `json:"kind"`
}

// keptEvent is an event that is reported once.
type keptEvent struct {
	event
	line []byte
	end  int64 // of the line
}

// Config configures a Watcher.
type Config struct {
	// Dir is the task's directory, Spec the specification that it was launched with.
	Dir  string
	Spec shim.Spec
	// MetricsBytes and EventsBytes limit how much of the metrics and events files is read; 0: no limit.
	MetricsBytes, EventsBytes int64
	// Roots are directories that may contain checkpoints, beside those of the job.
	Roots []string
	// Private are directories in which only the job's own files count.
	Private *private.Paths
	// Denied, if set, is called with each private path that an event of the task names.
	Denied func(path string)
	// Series takes the lines of the metrics file; nil: they are not needed.
	Series Series
	// Renames reports renames; nil: renames are inferred from the times of files.
	Renames *Renames
	Log     *slog.Logger
}

// New starts to watch a task, before its command is started. End ends it.
func New(cfg Config) *Watcher {
	w := newWatcher(cfg)
	if cfg.Renames != nil {
		w.hear(cfg.Renames, &cfg.Spec)
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
		cwd:     spec.Cwd, refused: make(map[string]bool), series: cfg.Series, denied: cfg.Denied,
	}
	if spec.Cwd == "" && len(spec.Dirs) > 0 {
		w.cwd = spec.Dirs[0]
	}
	w.printed, w.noPattern = printed.Open(cfg.Dir, spec.Env, cfg.MetricsBytes, spec.FilesMade())
	w.checkpoints = newCheckpointDir(cfg.Dir, spec.CheckpointDir)
	w.checkpoints.log = log
	w.places = placesOf(spec, cfg.Roots)
	w.places.private = cfg.Private
	return w
}

// OnRemark sets the function that writes remarks into the task's log.
func (w *Watcher) OnRemark(remark func(text string)) { w.remark = remark }

// hear starts to record renames in the checkpoint directory.
func (w *Watcher) hear(m *Renames, spec *shim.Spec) {
	if w.checkpoints.dir == "" {
		return
	}
	// As the shim does, which reports an error if it cannot.
	_ = spec.User.MakeDir(spec.Own, w.checkpoints.dir)
	w.checkpoints.renames = m
	m.follow(w.checkpoints.dir)
}

// End ends the watcher.
func (w *Watcher) End() {
	if w.checkpoints.renames != nil {
		w.checkpoints.renames.forget(w.checkpoints.dir)
	}
}

// load takes over the findings of an earlier agent, and returns those that were not acknowledged.
func (w *Watcher) load(ctx context.Context) []Finding {
	if w.journal != nil {
		return nil
	}
	w.checkpoints.load()
	w.journal = openJournal(w.dir)
	if size, _, err := taskfile.Size(w.dir, shim.EventsFile); err != nil || size < w.journal.eventsDone {
		w.journal.eventsDone = 0 // the events file was rewritten
	}
	w.toldAs, w.phase = w.journal.phase, w.journal.phase
	if w.series != nil {
		size, changed, _ := taskfile.Size(w.dir, shim.MetricsFile) // an unreadable file counts as empty, and so as rewritten
		_, started, _ := taskfile.Size(w.dir, shim.SpecFile)       // the shim writes to this file just before the command starts
		w.series.Begin(size, changed/int64(time.Millisecond), started/int64(time.Millisecond))
	}
	var found []Finding
	for _, e := range w.journal.unacked {
		f := Finding{Body: e.body, At: e.at, Acked: func() { w.journal.ack(e.n) }}
		if e.body.GetPhase() != nil {
			f.Latest = "phase"
		}
		if c := e.body.GetCheckpoint(); c != nil {
			left := maxLookEntries
			m, err := manifestWithin(ctx, w.places, c.GetPath(), &left)
			if ctx.Err() == nil && (err != nil || !m.is(c.GetManifestDigest())) {
				w.log.Warn("a checkpoint is not registered: it was changed or removed before it could be reported", "path", c.GetPath(), "step", c.GetStep())
				w.journal.ack(e.n)
				continue
			}
		}
		found = append(found, f)
	}
	w.journal.unacked = nil
	maps.Copy(w.checkpoints.known, w.journal.known)
	return found
}

// keep writes the findings that must be kept into the journal. A finding that cannot be encoded is dropped: it would be
// retried forever.
func (w *Watcher) keep(found []Finding) []Finding {
	kept := found[:0]
	for _, f := range found {
		if f.kept {
			f.At = time.Now()
			n, err := w.journal.add(f.Body, f.At, f.events)
			if errors.Is(err, errUnsayable) {
				w.log.Error("cannot encode a report about a task", "error", err)
				continue
			}
			if err != nil {
				w.log.Error("cannot write a report about a task to its journal; it is lost if the agent ends", "error", err)
			}
			f.Acked = func() { w.journal.ack(n) }
		}
		kept = append(kept, f)
	}
	return kept
}

// scan returns new findings. It must not be called before the command was started. last: the task has ended, so all of
// its files are read to the end. It ends early when ctx ends.
func (w *Watcher) scan(ctx context.Context, now time.Time, last bool) []Finding {
	known := w.load(ctx)
	if last {
		w.endLastLines()
	}
	var found []Finding
	for more := true; more; {
		var some []Finding
		some, more = w.look(ctx, now, last)
		found = append(found, w.keep(some)...)
		more = more && last && ctx.Err() == nil
	}
	if w.series != nil {
		w.series.Save(now, last && ctx.Err() == nil)
	}
	return append(known, found...)
}

// look returns some of the new findings, and whether there are more.
func (w *Watcher) look(ctx context.Context, now time.Time, last bool) (found []Finding, more bool) {
	left := w.checkpoints.most
	if len(w.waiting) == 0 {
		more = w.read(&w.events, w.event)
		if passed := w.passOver(); passed > 0 {
			w.say("mind: %d checkpoints reported by this task are not registered: only the last %d of those reported at once are", passed, maxFreshCheckpoints)
		}
	}
	found = w.take(ctx, &left)
	more = more || len(w.waiting) > 0
	more = w.listen(ctx, now, last) || more
	var latest []byte
	more = w.read(&w.metrics, func(line taskfile.Line) {
		if w.series != nil && !line.Long && !w.series.Line(line.Text, line.End, w.metrics.Changed/int64(time.Millisecond)) {
			w.say("mind: this task reports more than %d different numbers: the others have no history (GET /jobs/{id}/metrics/series)", series.MaxReported)
		}
		// The last line with a step counts; programs print other lines, too.
		if !line.Long && bytes.Contains(line.Text, []byte(`"step"`)) {
			latest = append(latest[:0], line.Text...)
		}
	}) || more
	if latest != nil {
		w.metric(latest)
	}
	var hold time.Time
	if w.reports && !last {
		hold = now
	}
	w.checkpoints.now, w.checkpoints.over, w.checkpoints.reports = now, last && !more, w.reports
	complete, err := w.checkpoints.scan(ctx, w.places, last && w.endedWell && !more, hold, &left)
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

// read passes on new lines of a file, as much as one look may read.
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
		w.say("mind: %s of this task is longer than %d MiB: the rest is not read (%s_bytes of the agent)", file.Name, file.Most>>20, strings.TrimSuffix(file.Name, ".jsonl"))
	}
	return more
}

// say writes a remark for the task's user into the task's log and the agent's. After the end of a task, the task's log is
// closed.
func (w *Watcher) say(format string, args ...any) {
	if w.remarks++; w.remarks > maxRemarks {
		return
	}
	text := fmt.Sprintf(format, args...)
	w.log.Warn("remark to a task's user", "text", text)
	w.remark(text)
}

// event handles a line of the events file. Unknown lines are ignored: the file belongs to the program.
func (w *Watcher) event(line taskfile.Line) {
	var e event
	text := line.Text
	if !line.Long {
		text = plainEvent(text)
	}
	if line.Long || text == nil || json.Unmarshal(text, &e) != nil {
		return
	}
	w.reports = w.reports || e.Event != ""
	switch e.Event {
	case "phase":
		if phase, ok := v1.JobPhase_Value_value[strings.ToUpper(e.Phase)]; ok {
			w.phase = v1.JobPhase_Value(phase)
		}
	case "progress":
		w.progress(e.Step, e.TotalSteps)
	case "checkpoint", "evaluation_result", "gate":
		// An event that was handled is not examined again: the program may be writing to the directory again.
		if !w.dealtWith(line.End) {
			w.waiting = append(w.waiting, keptEvent{e, slices.Clone(text), line.End})
		}
	}
}

// passOver drops all but the newest of the waiting checkpoints, and returns how many it dropped.
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

// take makes findings of the waiting events, in order. Events beyond the limits of one look wait for the next.
func (w *Watcher) take(ctx context.Context, left *int) (found []Finding) {
	for len(w.waiting) > 0 && ctx.Err() == nil {
		e := w.waiting[0]
		f, ok := Finding{}, false
		if e.Event == "checkpoint" {
			had := *left
			var err error
			f, ok, err = w.checkpoint(ctx, e, left)
			if errors.Is(err, safedir.ErrTooLarge) && had < w.checkpoints.most {
				return found
			}
			if errors.Is(err, ErrPrivate) && w.denied != nil {
				w.denied(e.Path)
			}
			if err != nil && ctx.Err() == nil {
				w.say("mind: checkpoint %.200q is not registered: %v", e.Path, taskfile.Cause(err))
			}
		} else if e.Event == "gate" {
			f, ok = w.gateFinding(e.line)
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
			w.log.Error("cannot write a report about a task to its journal", "error", err)
		}
	}
	return found
}

// checkpoint examines the directory of an event.
func (w *Watcher) checkpoint(ctx context.Context, e keptEvent, left *int) (f Finding, ok bool, err error) {
	if e.Path == "" {
		return f, false, nil
	}
	path := e.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.cwd, e.Path)
		if !w.places.has(path) {
			path = filepath.Join(w.checkpoints.dir, e.Path)
		}
	}
	metrics := string(e.Metrics)
	if len(metrics) > maxCheckpointMetrics {
		w.say("mind: the metrics of checkpoint %.200q are not kept: they have %d bytes; at most %d are kept", e.Path, len(metrics), maxCheckpointMetrics)
		metrics = ""
	}
	step, ok := numbers.Whole(e.Step)
	if !ok {
		return f, false, fmt.Errorf("its step %g is no number from 0 to 2^53", e.Step)
	}
	said := &v1.CheckpointReport{Step: step, MetricsJson: metrics}
	if strings.EqualFold(e.Kind, v1.CheckpointKind_MODEL.String()) {
		said.Kind = v1.CheckpointKind_MODEL
	}
	return w.checkpoints.event(ctx, w.places, filepath.Clean(path), said, left)
}

// dealtWith reports whether an earlier agent has handled the event that ends there.
func (w *Watcher) dealtWith(end int64) bool {
	if end < w.journal.eventsDone && w.eventsRead > end {
		w.journal.eventsDone = 0 // the file was rewritten
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
	s, ok := numbers.Whole(step)
	if !ok {
		return
	}
	t, ok := numbers.Whole(total)
	if !ok || t == 0 {
		t = w.total
	}
	if s != w.step || t != w.total {
		w.step, w.total, w.moved = s, t, true
	}
}
