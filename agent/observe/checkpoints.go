package observe

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/safedir"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// maxCheckpointDirs limits how many entries of a checkpoint directory are examined.
	maxCheckpointDirs = 10_000
	// maxLookEntries limits how many files and directories one look visits: more than the largest checkpoint has. The
	// rest is left to the next look.
	maxLookEntries = 4 * maxCheckpointFiles
	// registeredFile lists the checkpoints that the coordinators know. Only agents of older versions wrote it; see
	// journalFile.
	registeredFile = "registered"
	// eventPatience is how long a directory that was renamed into place is held for the event that reports it, if the
	// program writes events: the event has the metrics.
	eventPatience = time.Second
	// maxBaseline limits the list of the earlier contents of a checkpoint directory.
	maxBaseline = 16 << 20
)

// checkpointDir finds the checkpoints that a task completes.
type checkpointDir struct {
	taskDir, dir string
	most         int // entries that a look visits
	log          *slog.Logger
	renames      *Renames
	// before has the identities of directories that earlier attempts left, by name.
	before map[string]string
	// known has the checkpoints and models that were found, by path.
	known map[string]knownDir
	// notRenamed are directories that were not renamed into place, and tooLarge are directories that are too large for
	// a checkpoint, by name, with their change time at that look.
	notRenamed, tooLarge map[string]unix.Timespec
	at                   time.Time // of the directory, when it was last listed
	calm                 bool      // no directory waits for a second look
	short                bool      // the last look was not allowed to visit enough entries
	crowded              bool      // a remark said that the directory has too many entries
	// held is when complete directories that wait for the event of their program were first seen, by name.
	held map[string]time.Time
	// still has the directories that are written in place, with their state at the last looks, by name.
	still map[string]stillness
	// now is the time of the look; over: the program has ended; reports: it writes events.
	now           time.Time
	over, reports bool

	loaded bool
}

// knownDir is a directory that was found to be a checkpoint, or a model.
type knownDir struct {
	digest string
	// identity is that of the directory that was found; empty: it is not known since the agent started.
	identity string
	step     int64
	model    bool
}

func knownOf(c *v1.CheckpointReport) knownDir {
	return knownDir{digest: c.GetManifestDigest(), step: c.GetStep(), model: c.GetKind() == v1.CheckpointKind_MODEL}
}

func newCheckpointDir(taskDir, dir string) checkpointDir {
	return checkpointDir{
		taskDir: taskDir, dir: dir, most: maxLookEntries, log: slog.New(slog.DiscardHandler), known: make(map[string]knownDir),
		notRenamed: make(map[string]unix.Timespec), tooLarge: make(map[string]unix.Timespec), held: make(map[string]time.Time),
		still: make(map[string]stillness),
	}
}

// load reads the list of the earlier contents of the directory. The shim writes it before it starts the command.
func (c *checkpointDir) load() {
	if c.loaded {
		return
	}
	c.loaded = true
	if data, err := taskfile.Read(c.taskDir, shim.BaselineFile, maxBaseline); err == nil {
		_ = json.Unmarshal(data, &c.before)
	}
	// Agents of earlier versions kept the acknowledged checkpoints here.
	if data, err := taskfile.Read(c.taskDir, registeredFile, maxBaseline); err == nil {
		for line := range strings.Lines(string(data)) {
			if digest, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
				c.known[path] = knownDir{digest: digest}
			}
		}
	}
}

// unfinished reports whether a name is one that programs use for a checkpoint while it is being written.
func unfinished(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp") || strings.HasPrefix(name, "tmp-")
}

// scan looks for new complete directories: those that were renamed into place. A directory that is written in place may
// look idle while half of it is missing, so it counts only if its contents show that it is whole (settled), after the
// program has ended successfully, or when the program reports it (event). done: the program has ended successfully. now
// is the time if the program writes events, and zero otherwise: a program with events may be about to report the
// directory, with its metrics. left is the number of entries that may still be visited. The error is for the task's
// user: the checkpoint directory cannot be found.
func (c *checkpointDir) scan(ctx context.Context, may places, done bool, now time.Time, left *int) ([]Finding, error) {
	if c.dir == "" {
		return nil, nil
	}
	dir, err := may.open(c.dir)
	if errors.Is(err, errNotWithin) {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	defer dir.Close()
	stat, err := dir.Stat()
	changed := time.Unix(stat.Mtim.Unix())
	if err != nil || changed.Equal(c.at) && c.calm && !c.over {
		return nil, nil
	}
	c.at, c.calm, c.short = changed, true, false
	// A change within the clock's granularity may not change the time of the directory: look again while it is recent.
	if time.Since(c.at) < time.Second {
		c.calm = false
	}
	children, all, err := dir.Children(maxCheckpointDirs)
	if err != nil {
		return nil, nil
	}
	if !all && !c.crowded {
		c.crowded = true
		c.log.Warn("a checkpoint directory has too many entries: checkpoints in it may be missed", "dir", c.dir, "looked_at", maxCheckpointDirs)
	}
	sortByAge(children)
	var found []Finding
	newest := c.newestKnown(children)
	for _, child := range children {
		if unfinished(child.Name) || !utf8.ValidString(child.Name) || c.before[child.Name] == identity(&child.Stat) {
			continue
		}
		path := filepath.Join(c.dir, child.Name)
		known, was := c.known[path]
		_, inPlace := c.still[child.Name]
		if was && known.identity == "" {
			known = c.identify(ctx, dir, child, known, left)
			c.known[path] = known
		}
		// Another directory of the same name is another checkpoint. One that was written in place may have changed since: it
		// is checked again at the end of the program.
		replaced := was && known.identity != "" && known.identity != identity(&child.Stat) && !known.model
		again := was && (replaced || inPlace && c.over && !known.model)
		if was && !again || c.tooLarge[child.Name] == child.Stat.Ctim {
			continue
		}
		had := *left
		complete := c.renames.into(c.dir, child.Name)
		if !complete {
			complete, err = c.renamed(ctx, dir, child, left)
		}
		if err == nil && !complete && !done && !changedBefore(&child.Stat, newest) {
			if complete, err = c.settled(ctx, dir, child.Name, c.over, left); err == nil && !complete {
				c.calm = c.calm && c.still[child.Name].whole == unknown && c.now.Sub(c.still[child.Name].since) > otherQuiet
			}
		}
		if err == nil && !complete && (!done || changedBefore(&child.Stat, newest)) {
			// Checkpoints that were missed are dropped, also at the end: they would be reported after newer ones, and
			// count as the newest.
			continue
		}
		if err == nil && c.hold(child.Name, now) {
			c.calm = false
			continue
		}
		var m manifest
		if err == nil {
			m, err = manifestBelow(ctx, dir, child.Name, left)
		}
		if err != nil && had == c.most && hopeless(err) {
			c.tooLarge[child.Name] = child.Stat.Ctim
			c.log.Warn("a directory is not registered as a checkpoint", "path", path, "why", err)
			continue
		}
		if err != nil || m.size == 0 {
			c.calm = false
			c.short = c.short || errors.Is(err, safedir.ErrTooLarge)
			continue
		}
		if !again || !m.is(known.digest) {
			found = append(found, c.found(path, m, stepOf(child.Name), ""))
		}
		known = c.known[path]
		known.identity = identity(&child.Stat)
		c.known[path] = known
	}
	return found, nil
}

// identify finds out whether a directory is the one that was found when its identity was not noted.
func (c *checkpointDir) identify(ctx context.Context, dir *safedir.Dir, child safedir.Child, known knownDir, left *int) knownDir {
	m, err := manifestBelow(ctx, dir, child.Name, left)
	switch {
	case errors.Is(err, errTooManyFiles), errors.Is(err, safedir.ErrTooDeep):
		known.identity = replacedSince
	case err != nil:
		c.calm = false
	case m.is(known.digest):
		known.identity = identity(&child.Stat)
	default:
		known.identity = replacedSince
	}
	return known
}

// replacedSince is the identity of a directory that is not there any more.
const replacedSince = "replaced"

// hold reports whether a complete directory still waits for the event of its program.
func (c *checkpointDir) hold(name string, now time.Time) bool {
	if now.IsZero() {
		return false
	}
	first, ok := c.held[name]
	if !ok {
		c.held[name] = now
		return true
	}
	if now.Sub(first) < eventPatience {
		return true
	}
	delete(c.held, name)
	return false
}

// hopeless reports whether no look, even one that starts with this directory, could visit all of it.
func hopeless(err error) bool {
	return errors.Is(err, errTooManyFiles) || errors.Is(err, safedir.ErrTooDeep) || errors.Is(err, safedir.ErrTooLarge)
}

func changedBefore(stat *unix.Stat_t, than time.Time) bool {
	return time.Unix(stat.Mtim.Unix()).Before(than)
}

// identity distinguishes two directory entries of the same name, as the shim does.
func identity(stat *unix.Stat_t) string {
	return strconv.FormatUint(stat.Ino, 10) + ":" + strconv.FormatInt(stat.Mtim.Nano(), 10)
}

// newestKnown returns the change time of the newest checkpoint that was already reported.
func (c *checkpointDir) newestKnown(children []safedir.Child) (newest time.Time) {
	for _, child := range children {
		if _, ok := c.known[filepath.Join(c.dir, child.Name)]; ok && !changedBefore(&child.Stat, newest) {
			newest = time.Unix(child.Stat.Mtim.Unix())
		}
	}
	return newest
}

// sortByAge sorts the contents of a directory by change time. After a time without an agent, several checkpoints are found
// at once, and the last one reported counts as the newest.
func sortByAge(children []safedir.Child) {
	slices.SortFunc(children, func(a, b safedir.Child) int {
		if c := compare(a.Stat.Mtim, b.Stat.Mtim); c != 0 {
			return c
		}
		if c := stepOf(a.Name) - stepOf(b.Name); c != 0 {
			return int(c)
		}
		return strings.Compare(a.Name, b.Name)
	})
}

func compare(a, b unix.Timespec) int { return time.Unix(a.Unix()).Compare(time.Unix(b.Unix())) }

// renamed infers from times that a directory got its name after all of its contents were written: a rename changes the
// time of the directory's inode, but of nothing in it. It is used if the agent was not running at the time of the
// rename.
func (c *checkpointDir) renamed(ctx context.Context, dir *safedir.Dir, child safedir.Child, left *int) (bool, error) {
	at := child.Stat.Ctim
	if compare(at, child.Stat.Mtim) <= 0 || c.notRenamed[child.Name] == at {
		return false, nil
	}
	err := below(dir, child.Name, func(d *safedir.Dir) error {
		return d.Walk(ctx, left, func(e safedir.Entry) error {
			if compare(at, e.Changed) <= 0 {
				return errWrittenLater
			}
			return nil
		})
	})
	if errors.Is(err, errWrittenLater) {
		c.notRenamed[child.Name] = at // until it is renamed
		return false, nil
	}
	return err == nil, err
}

// event handles a checkpoint or a model that the program reported; the error is for its user. A checkpoint that is
// later reported as a model is found again, as a model; if the event names no step, it keeps the checkpoint's. A model
// stays a model.
func (c *checkpointDir) event(ctx context.Context, may places, path string, said *v1.CheckpointReport, left *int) (f Finding, ok bool, err error) {
	m, err := manifestWithin(ctx, may, path, left)
	model := said.GetKind() == v1.CheckpointKind_MODEL
	known, was := c.known[path]
	was = was && m.is(known.digest)
	if err != nil || was && (known.model || !model) {
		return Finding{}, false, err
	}
	step := said.GetStep()
	switch {
	case step == 0 && was:
		step = known.step
	case step == 0:
		step = stepOf(filepath.Base(path))
	}
	f = c.found(path, m, step, said.GetMetricsJson())
	f.Body.GetCheckpoint().Kind = said.GetKind()
	c.known[path] = knownOf(f.Body.GetCheckpoint())
	return f, true, nil
}

func (c *checkpointDir) found(path string, m manifest, step int64, metrics string) Finding {
	found := &v1.CheckpointReport{Path: path, Step: step, ManifestDigest: m.digest, SizeBytes: m.size, MetricsJson: metrics}
	c.known[path] = knownOf(found)
	delete(c.held, filepath.Base(path)) // the next one of this name waits for its own event
	return Finding{kept: true, Body: &v1.Report{Body: &v1.Report_Checkpoint{Checkpoint: found}}}
}

// stepOf returns the number at the end of a name such as checkpoint-200.
func stepOf(name string) int64 {
	digits := len(name)
	for digits > 0 && name[digits-1] >= '0' && name[digits-1] <= '9' {
		digits--
	}
	step, _ := strconv.ParseInt(name[digits:], 10, 64)
	return step
}
