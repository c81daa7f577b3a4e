package lease

import (
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Book is the Keeper of a node with what it needs to number renewals, to say whether a task may be launched, and to say which
// shim should hear of its deadline now. Like the Keeper it is pure, and not safe for concurrent use.
type Book struct {
	*Keeper
	began int64
	// seq is the number of the newest renewal.
	seq   uint64
	tasks map[string]*entry
	// waiting: a task was not allowed to be launched since Looked.
	waiting bool
}

type entry struct {
	task Task
	// held: there is a shim that holds the task to its deadline; told is what it was told.
	held bool
	told Deadline
}

// NewBook returns the book of an agent that starts now. first is above all numbers that earlier agents of the node gave to
// renewals.
func NewBook(self string, timing Timing, first uint64, now int64) *Book {
	return &Book{Keeper: New(self, timing, now), began: now, seq: first, tasks: make(map[string]*entry)}
}

// Renewal is the number and the roster version of a renewal that is sent next.
func (b *Book) Renewal(now int64) (seq, roster uint64) {
	b.seq++
	b.Sent(b.seq, now)
	return b.seq, b.RosterVersion()
}

// Age is the time since the newest acknowledged renewal was sent; before the first one, since the start.
func (b *Book) Age(now int64) time.Duration { return time.Duration(now - max(b.Renewed(), b.began)) }

// MaxTerm bounds the second grace period of a stop, from SIGTERM to SIGKILL, when the first gave notice.
const MaxTerm = 10 * time.Second

// defaultGrace is that of jobs which name none.
const defaultGrace = 30 * time.Second

// TaskOf is what orders say of a task's lease; false: it has none.
func TaskOf(spec *v1.TaskSpec) (Task, bool) {
	if spec.GetLeaseMs() <= 0 {
		return Task{}, false
	}
	grace := defaultGrace
	if s := spec.GetJob().GetSchedulingConfig(); s != nil && s.GracePeriodSeconds != nil {
		grace = time.Duration(max(0, s.GetGracePeriodSeconds())) * time.Second
	}
	return Task{
		Lease: time.Duration(spec.GetLeaseMs()) * time.Millisecond, Replaceable: spec.GetReplaceable(), Stop: grace + min(grace, MaxTerm),
	}, true
}

// Keep begins to keep a task, or takes its lease anew.
func (b *Book) Keep(name string, task Task) {
	b.Add(name, task)
	if e, ok := b.tasks[name]; ok {
		e.task = task
		return
	}
	b.tasks[name] = &entry{task: task}
}

// Held notes whether there is a shim that holds a task to its deadline.
func (b *Book) Held(name string, held bool) {
	if e, ok := b.tasks[name]; ok {
		e.held = held
	}
}

// Restore takes up the deadline that a shim goes by.
func (b *Book) Restore(name string, known Deadline) {
	b.Keeper.Restore(name, known)
	if e, ok := b.tasks[name]; ok && known.StopAt > e.told.StopAt {
		e.told = known
	}
}

// Drop forgets a task.
func (b *Book) Drop(name string) {
	b.Remove(name)
	delete(b.tasks, name)
}

// Request is what must be known of a task that is to be launched.
type Request struct {
	// Leased: it lives by a lease.
	Leased bool
	// Replacement: an earlier attempt may be alive on a node that cannot be reached.
	Replacement bool
}

// MayLaunch reports whether a task may be launched now; why says what it waits for otherwise.
func (b *Book) MayLaunch(name string, r Request, now int64) (ok bool, why string) {
	switch {
	case r.Replacement && !b.MayLaunchReplacement(now):
		why = "an earlier attempt may run on for a moment on a node that cannot be reached"
	case r.Leased && !b.InSession():
		why = "the node is not in session: what it was ordered before may be at work elsewhere"
	case r.Leased:
		if d, entitled := b.Deadline(name, now); !entitled || now >= d.StopAt {
			why = "no coordinator has renewed the node's leases"
		}
	}
	b.waiting = b.waiting || why != ""
	return why == "", why
}

// Waiting reports whether a task waits for MayLaunch to say yes; Looked says that all were asked about anew.
func (b *Book) Waiting() bool { return b.waiting }

// Looked is called before MayLaunch is asked about all tasks that wait.
func (b *Book) Looked() { b.waiting = false }

// Launched is what the shim of a task is to hold it to from its start on. ok is false for a task without a lease.
func (b *Book) Launched(name string, now int64) (task Task, d Deadline, ok bool) {
	e, ok := b.tasks[name]
	if !ok {
		return Task{}, Deadline{}, false
	}
	if d, entitled := b.Deadline(name, now); entitled {
		e.told = d
		return e.task, d, true
	}
	return e.task, Deadline{}, true
}

// Word is what the shim of a task should hear now.
type Word struct {
	Name     string
	Deadline Deadline
}

// Due lists the deadlines that have moved enough to be told, and counts them as told. runsOn: a task lives past its lease.
func (b *Book) Due(now int64) (words []Word, runsOn bool) {
	for name, d := range b.Deadlines(now) {
		e := b.tasks[name]
		runsOn = runsOn || d.RunsOn
		if e.held && e.due(d, now, b.Timing()) {
			e.told = d
			words = append(words, Word{name, d})
		}
	}
	return words, runsOn
}

// Untold takes back that a shim was told.
func (b *Book) Untold(name string) {
	if e, ok := b.tasks[name]; ok {
		e.told = Deadline{}
	}
}

// Steps by which a deadline that is far away is told to a shim. What is near is
// told as it moves.
const (
	minStep = time.Second
	maxStep = time.Minute
)

// due reports whether a shim should hear of a deadline now: not at each renewal,
// which comes every second and concerns every task.
func (e *entry) due(d Deadline, now int64, timing Timing) bool {
	gain := time.Duration(d.StopAt - e.told.StopAt)
	if gain <= 0 {
		return false
	}
	near := time.Duration(e.told.StopAt-now) < max(e.task.Lease/4, 2*timing.Window)
	if near {
		return gain >= timing.Heartbeat/4
	}
	return gain >= min(max(e.task.Lease/10, minStep), maxStep)
}
