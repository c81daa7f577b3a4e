package leader

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Leases is the node's lease book (package lease) with a clock, a lock, and the shims that enforce the deadlines. It
// works without the goroutine that owns the tasks, so renewals continue while that is busy.
type Leases struct {
	clock func() int64
	log   *slog.Logger
	// launchable is called when a waiting task may be launched. It must not block.
	launchable func()

	mu      sync.Mutex
	book    *lease.Book
	holders map[string]Holder

	soon   chan struct{} // a change that shims must learn about
	runsOn atomic.Bool
}

// Holder enforces the deadline of a task.
type Holder interface {
	SetDeadline(shim.Deadline) error
}

// NewLeases returns the leases of a node. first is larger than all renewal numbers of earlier agents; clock also runs
// while the machine sleeps.
func NewLeases(node string, timing lease.Timing, first uint64, clock func() int64, log *slog.Logger) *Leases {
	return &Leases{
		clock: clock, log: log, launchable: func() {}, book: lease.NewBook(node, timing, first, clock()),
		holders: make(map[string]Holder), soon: make(chan struct{}, 1),
	}
}

// OnLaunchable sets the function that is called when a waiting task may be launched. It must not block. Call it before
// Run.
func (l *Leases) OnLaunchable(f func()) { l.launchable = f }

// with calls f with the book and the time, under the lock.
func (l *Leases) with(f func(b *lease.Book, now int64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.book, l.clock())
}

// Timing returns the timing of the keeper.
func (l *Leases) Timing() lease.Timing { return l.book.Timing() }

// Renewal returns the number and roster version for the next renewal.
func (l *Leases) Renewal() (seq, roster uint64) {
	l.with(func(b *lease.Book, now int64) { seq, roster = b.Renewal(now) })
	return seq, roster
}

// Acked records that the leader acknowledged a renewal, and reports whether it renews the leases.
func (l *Leases) Acked(seq uint64) (news bool) {
	waiting := false
	l.with(func(b *lease.Book, _ int64) { news, waiting = b.Acked(seq), b.Waiting() })
	if news && waiting {
		l.launchable()
	}
	return news
}

// hurry makes Run update the shims at once.
func (l *Leases) hurry() {
	select {
	case l.soon <- struct{}{}:
	default:
	}
}

func (l *Leases) sessionOpened() {
	waiting := false
	l.with(func(b *lease.Book, now int64) {
		b.SessionOpened(now)
		waiting = b.Waiting()
	})
	if waiting {
		l.launchable()
	}
}

func (l *Leases) sessionClosed() {
	l.with(func(b *lease.Book, now int64) { b.SessionClosed(now) })
}

// answerPing returns the answer to a ping: whether the session is closed.
func (l *Leases) answerPing() (closed bool) {
	l.with(func(b *lease.Book, now int64) { closed = b.AnswerPing(now) })
	return closed
}

// LastClosedAnswer returns when this node last answered a peer that its session was closed. It returns false if it
// never did.
func (l *Leases) LastClosedAnswer() (at int64, ok bool) {
	l.with(func(b *lease.Book, _ int64) { at, ok = b.LastClosedAnswer() })
	return at, ok
}

// RosterVersion returns the version of the roster that is on disk.
func (l *Leases) RosterVersion() (version uint64) {
	l.with(func(b *lease.Book, _ int64) { version = b.RosterVersion() })
	return version
}

// Want starts to keep the lease of a task in the orders.
func (l *Leases) Want(id taskid.ID, spec *v1.TaskSpec) {
	if task, ok := lease.TaskOf(spec); ok {
		l.with(func(b *lease.Book, _ int64) { b.Keep(id.Name(), task) })
	}
}

// Adopt starts to keep the lease of a task that an earlier agent launched.
func (l *Leases) Adopt(id taskid.ID, of shim.Lease) {
	if of.Ns > 0 {
		task := lease.Task{Lease: time.Duration(of.Ns), Replaceable: of.Replaceable, Stop: time.Duration(of.StopNs)}
		l.with(func(b *lease.Book, _ int64) { b.Keep(id.Name(), task) })
	}
}

// Attach sets the shim that enforces a task's deadline; nil: none does any more.
func (l *Leases) Attach(id taskid.ID, holder Holder) {
	l.with(func(b *lease.Book, _ int64) {
		b.Held(id.Name(), holder != nil)
		if holder != nil {
			l.holders[id.Name()] = holder
		} else {
			delete(l.holders, id.Name())
		}
	})
}

// Restore takes over the deadline that the shim of a running task enforces.
func (l *Leases) Restore(id taskid.ID, told shim.Deadline) {
	l.with(func(b *lease.Book, _ int64) {
		b.Restore(id.Name(), lease.Deadline{StopAt: told.StopAt, DeadBy: told.DeadBy, Renewed: told.Renewed})
	})
}

// Drop forgets a task.
func (l *Leases) Drop(id taskid.ID) {
	l.with(func(b *lease.Book, _ int64) { b.Drop(id.Name()) })
}

// Looked is called before MayLaunch is asked about all waiting tasks.
func (l *Leases) Looked() { l.with(func(b *lease.Book, _ int64) { b.Looked() }) }

// MayLaunch reports whether a task may be launched; if not, why is the reason.
func (l *Leases) MayLaunch(id taskid.ID, spec *v1.TaskSpec) (ok bool, why string) {
	l.with(func(b *lease.Book, now int64) {
		ok, why = b.MayLaunch(id.Name(), lease.Request{Leased: spec.GetLeaseMs() > 0, Replacement: spec.GetReplacement()}, now)
	})
	return ok, why
}

// Launched returns the deadline that the shim of a new task enforces.
func (l *Leases) Launched(id taskid.ID) (of shim.Lease) {
	l.with(func(b *lease.Book, now int64) {
		if task, d, ok := b.Launched(id.Name(), now); ok {
			of = shim.Lease{Ns: int64(task.Lease), StopNs: int64(task.Stop), Replaceable: task.Replaceable, Deadline: deadlineOf(d)}
		}
	})
	return of
}

func deadlineOf(d lease.Deadline) shim.Deadline {
	return shim.Deadline{StopAt: d.StopAt, DeadBy: d.DeadBy, Renewed: d.Renewed}
}

// Run sends deadlines to the shims until the context ends.
func (l *Leases) Run(ctx context.Context) {
	tick := time.NewTicker(l.Timing().Heartbeat / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.soon:
		}
		l.tell()
		waiting := false
		l.with(func(b *lease.Book, _ int64) { waiting = b.Waiting() })
		if waiting {
			l.launchable()
		}
	}
}

// tell sends the deadlines that have moved enough to the shims.
func (l *Leases) tell() {
	type telling struct {
		lease.Word
		holder Holder
	}
	var words []telling
	runsOn := false
	l.with(func(b *lease.Book, now int64) {
		var due []lease.Word
		due, runsOn = b.Due(now)
		for _, w := range due {
			words = append(words, telling{w, l.holders[w.Name]})
		}
	})
	for _, w := range words {
		if err := w.holder.SetDeadline(deadlineOf(w.Deadline)); err != nil {
			l.log.Debug("a shim does not accept its deadline", "error", err)
			l.with(func(b *lease.Book, _ int64) { b.Untold(w.Name) })
		}
	}
	if l.runsOn.Swap(runsOn) != runsOn {
		if runsOn {
			l.log.Warn("no node can reach a coordinator: tasks keep running past their leases")
		} else {
			l.log.Warn("tasks are bound by their leases again")
		}
	}
}

// Collectors returns the metrics of the leases.
func (l *Leases) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "mind_agent_lease_age_seconds", Help: "Time since the newest acknowledged renewal was sent; before the first one, since the agent's start.",
		}, func() float64 {
			var age time.Duration
			l.with(func(b *lease.Book, now int64) { age = b.Age(now) })
			return age.Seconds()
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mind_agent_running_on", Help: "1 while tasks keep running past their leases because no node is in session."}, func() float64 {
			if l.runsOn.Load() {
				return 1
			}
			return 0
		}),
	}
}
