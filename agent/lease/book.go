package lease

import (
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Book is the Keeper of a node, plus the numbering of renewals, the decision whether a task may be launched, and the
// choice of the shims to send a deadline. Like the Keeper it is pure, and not safe for concurrent use.
type Book struct {
	*Keeper
	began int64
	// seq is the number of the newest renewal.
	seq   uint64
	tasks map[string]*entry
	// waiting: a task was refused a launch since Looked.
	waiting bool
}

type entry struct {
	task Task
	// held: a shim enforces the task's deadline; told is the deadline that the shim has.
	held bool
	told Deadline
}

// NewBook returns the book of an agent that starts now. first is larger than all renewal numbers of earlier agents of the
// node.
func NewBook(self string, timing Timing, first uint64, now int64) *Book {
	return &Book{Keeper: New(self, timing, now), began: now, seq: first, tasks: make(map[string]*entry)}
}

// Renewal returns the number and the roster version for the next renewal.
func (b *Book) Renewal(now int64) (seq, roster uint64) {
	b.seq++
	b.Sent(b.seq, now)
	return b.seq, b.RosterVersion()
}

// Age returns the time since the newest acknowledged renewal was sent; before the first one, since the start.
func (b *Book) Age(now int64) time.Duration { return time.Duration(now - max(b.Renewed(), b.began)) }

// MaxTerm limits the second grace period of a stop, from SIGTERM to SIGKILL, if the first gave notice.
const MaxTerm = 10 * time.Second

// defaultGrace is the grace period of jobs that do not set one.
const defaultGrace = 30 * time.Second

// TaskOf returns a task's lease from its specification. It returns false if the task has none.
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

// Keep starts to keep a task, or replaces its lease.
func (b *Book) Keep(name string, task Task) {
	b.Add(name, task)
	if e, ok := b.tasks[name]; ok {
		e.task = task
		return
	}
	b.tasks[name] = &entry{task: task}
}

// Held records whether a shim enforces a task's deadline.
func (b *Book) Held(name string, held bool) {
	if e, ok := b.tasks[name]; ok {
		e.held = held
	}
}

// Restore takes over the deadline that a shim enforces.
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

// Request describes a task for MayLaunch.
type Request struct {
	// Leased: the task is bound by a lease.
	Leased bool
	// Replacement: an earlier attempt may be alive on an unreachable node.
	Replacement bool
}

// MayLaunch reports whether a task may be launched; if not, why is the reason.
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

// Waiting reports whether MayLaunch has refused a task since the last call of Looked.
func (b *Book) Waiting() bool { return b.waiting }

// Looked is called before MayLaunch is asked about all waiting tasks.
func (b *Book) Looked() { b.waiting = false }

// Launched returns the lease and the deadline that the shim of a new task enforces. ok is false for a task without a
// lease.
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

// Word is a deadline to send to the shim of a task.
type Word struct {
	Name     string
	Deadline Deadline
}

// Due returns the deadlines that have moved enough to be sent, and records them as sent. runsOn: a task runs past its
// lease.
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

// Untold records that a shim did not get its deadline.
func (b *Book) Untold(name string) {
	if e, ok := b.tasks[name]; ok {
		e.told = Deadline{}
	}
}

// Steps by which a distant deadline moves before it is sent to a shim. A near one is sent whenever it moves.
const (
	minStep = time.Second
	maxStep = time.Minute
)

// due reports whether to send a deadline to a shim. It is not sent at each renewal, because that happens every second
// and concerns every task.
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
