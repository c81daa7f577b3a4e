package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// leases is the lease keeper of this node (package lease) with a clock, a lock,
// and the shims that hold the deadlines. What it tells them does not need the
// owner of the tasks: renewals go on while that is busy.
type leases struct {
	agent *agent
	began int64

	mu     sync.Mutex
	keeper *lease.Keeper
	// seq is the number of the newest renewal; it starts above all that earlier
	// agents used.
	seq  uint64
	held map[string]*heldTask
	// queued: tasks wait for a renewal, or for their predecessors' end.
	queued bool

	soon   chan struct{} // something changed that shims should hear of
	runsOn atomic.Bool
}

type heldTask struct {
	lease   lease.Task
	process Process
	told    shim.Deadline
}

// Steps by which a deadline that is far away is told to a shim. What is near is
// told as it moves.
const (
	minStep = time.Second
	maxStep = time.Minute
)

func newLeases(a *agent, first uint64) *leases {
	now := a.cfg.Machine.clock()
	return &leases{
		began: now,
		agent: a, seq: first, held: make(map[string]*heldTask), soon: make(chan struct{}, 1),
		keeper: lease.New(a.cfg.NodeID, a.cfg.Leases, now),
	}
}

// with runs f under the lock, with the time.
func (l *leases) with(f func(k *lease.Keeper, now int64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.keeper, l.agent.cfg.Machine.clock())
}

// renewal returns the number and roster version of a renewal that is sent next.
func (l *leases) renewal() (seq, roster uint64) {
	l.with(func(k *lease.Keeper, now int64) {
		l.seq++
		k.Sent(l.seq, now)
		seq, roster = l.seq, k.RosterVersion()
	})
	return seq, roster
}

// acked notes that the leader acknowledged a renewal, and reports whether that
// was news.
func (l *leases) acked(seq uint64) (news bool) {
	queued := false
	l.with(func(k *lease.Keeper, _ int64) { news, queued = k.Acked(seq), l.queued })
	if news && queued {
		l.nudge()
	}
	return news
}

// nudge has the owner look at its queue, unless it is busy: there is a next time.
func (l *leases) nudge() {
	select {
	case l.agent.mail <- l.agent.launchNext:
	default:
	}
}

// hurry has the shims told at once.
func (l *leases) hurry() {
	select {
	case l.soon <- struct{}{}:
	default:
	}
}

func (l *leases) sessionOpened() {
	queued := false
	l.with(func(k *lease.Keeper, now int64) {
		k.SessionOpened(now)
		queued = l.queued
	})
	if queued {
		l.nudge()
	}
}

func (l *leases) sessionClosed() {
	l.with(func(k *lease.Keeper, now int64) { k.SessionClosed(now) })
}

// answerPing says whether the session is closed.
func (l *leases) answerPing() (closed bool) {
	l.with(func(k *lease.Keeper, now int64) { closed = k.AnswerPing(now) })
	return closed
}

// want begins to keep a task that the orders name.
func (l *leases) want(k key, spec *v1.TaskSpec) {
	if spec.GetLeaseMs() <= 0 {
		return
	}
	grace := defaultGrace
	if s := spec.GetJob().GetSchedulingConfig(); s != nil && s.GracePeriodSeconds != nil {
		grace = time.Duration(max(0, s.GetGracePeriodSeconds())) * time.Second
	}
	l.keep(k, lease.Task{
		Lease: time.Duration(spec.GetLeaseMs()) * time.Millisecond, Replaceable: spec.GetReplaceable(), Stop: grace + min(grace, maxTerm),
	})
}

// defaultGrace is that of jobs which name none.
const defaultGrace = 30 * time.Second

// adopt begins to keep a task that an earlier agent launched.
func (l *leases) adopt(k key, of shim.Lease) {
	if of.Ns > 0 {
		l.keep(k, lease.Task{Lease: time.Duration(of.Ns), Replaceable: of.Replaceable, Stop: time.Duration(of.StopNs)})
	}
}

func (l *leases) keep(k key, task lease.Task) {
	l.with(func(keeper *lease.Keeper, _ int64) {
		name := k.name()
		keeper.Add(name, task)
		if h, ok := l.held[name]; ok {
			h.lease = task
			return
		}
		l.held[name] = &heldTask{lease: task}
	})
}

// attach names who holds a task to its deadline, nil when nobody does any more.
func (l *leases) attach(k key, process Process) {
	l.with(func(*lease.Keeper, int64) {
		if h, ok := l.held[k.name()]; ok {
			h.process = process
		}
	})
}

// restore takes up the deadline that a task lives by.
func (l *leases) restore(k key, told shim.Deadline) {
	l.with(func(keeper *lease.Keeper, _ int64) {
		name := k.name()
		keeper.Restore(name, lease.Deadline{StopAt: told.StopAt, DeadBy: told.DeadBy, Renewed: told.Renewed})
		if h, ok := l.held[name]; ok && told.StopAt > h.told.StopAt {
			h.told = told
		}
	})
}

// drop forgets a task.
func (l *leases) drop(k key) {
	l.with(func(keeper *lease.Keeper, _ int64) {
		keeper.Remove(k.name())
		delete(l.held, k.name())
	})
}

// look is called when the queue is gone through.
func (l *leases) look() { l.with(func(*lease.Keeper, int64) { l.queued = false }) }

// mayLaunch reports whether a task may be launched now; why says what it waits
// for otherwise.
func (l *leases) mayLaunch(k key, spec *v1.TaskSpec) (ok bool, why string) {
	l.with(func(keeper *lease.Keeper, now int64) {
		switch {
		case spec.GetReplacement() && !keeper.MayLaunchReplacement(now):
			why = "an earlier attempt may run on for a moment on a node that cannot be reached"
		case spec.GetLeaseMs() > 0 && !keeper.InSession():
			why = "the node is not in session: what it was ordered before may be at work elsewhere"
		case spec.GetLeaseMs() > 0:
			if d, entitled := keeper.Deadline(k.name(), now); !entitled || now >= d.StopAt {
				why = "no coordinator has renewed the node's leases"
			}
		}
		l.queued = l.queued || why != ""
	})
	return why == "", why
}

// spec is what the shim of a task is to hold it to.
func (l *leases) spec(k key) shim.Lease {
	var of shim.Lease
	l.with(func(keeper *lease.Keeper, now int64) {
		h, ok := l.held[k.name()]
		if !ok {
			return
		}
		of = shim.Lease{Ns: int64(h.lease.Lease), StopNs: int64(h.lease.Stop), Replaceable: h.lease.Replaceable}
		if d, ok := keeper.Deadline(k.name(), now); ok {
			of.Deadline = told(d)
			h.told = of.Deadline
		}
	})
	return of
}

func told(d lease.Deadline) shim.Deadline {
	return shim.Deadline{StopAt: d.StopAt, DeadBy: d.DeadBy, Renewed: d.Renewed}
}

// run keeps the shims informed until the context ends.
func (l *leases) run(ctx context.Context) {
	tick := time.NewTicker(l.keeper.Timing().Heartbeat / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.soon:
		}
		l.tell()
		queued := false
		l.with(func(*lease.Keeper, int64) { queued = l.queued })
		if queued {
			l.nudge()
		}
	}
}

// tell extends the deadlines that have moved enough.
func (l *leases) tell() {
	type word struct {
		task     *heldTask
		process  Process
		deadline shim.Deadline
	}
	var words []word
	runsOn := false
	l.with(func(k *lease.Keeper, now int64) {
		for name, d := range k.Deadlines(now) {
			h := l.held[name]
			runsOn = runsOn || d.RunsOn
			if h.process != nil && h.due(d, now, k.Timing()) {
				h.told = told(d)
				words = append(words, word{h, h.process, h.told})
			}
		}
	})
	for _, w := range words {
		if err := w.process.SetDeadline(w.deadline); err != nil {
			l.agent.log.Debug("a shim does not take its deadline", "error", err)
			l.with(func(*lease.Keeper, int64) { w.task.told = shim.Deadline{} })
		}
	}
	if l.runsOn.Swap(runsOn) != runsOn {
		if runsOn {
			l.agent.log.Warn("no coordinator can be reached, by any node: tasks run on")
		} else {
			l.agent.log.Warn("tasks live by their leases again")
		}
	}
}

func (l *leases) metrics() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "mind_agent_lease_age_seconds", Help: "Since the newest renewal that a leader acknowledged was sent; before the first one, since the agent's start.",
		}, func() float64 {
			var age int64
			l.with(func(k *lease.Keeper, now int64) { age = now - max(k.Renewed(), l.began) })
			return time.Duration(age).Seconds()
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mind_agent_running_on", Help: "1 while tasks run on past their leases because no node is in session."}, func() float64 {
			if l.runsOn.Load() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "mind_agent_relayed_total", Help: "Renewals of other nodes that a leader acknowledged in this node's session."}, func() float64 {
			return float64(l.agent.relays.passed.Load())
		}),
	}
}

// due reports whether a shim should hear of a deadline now: not at each renewal,
// which comes every second and concerns every task.
func (h *heldTask) due(d lease.Deadline, now int64, timing lease.Timing) bool {
	gain := time.Duration(d.StopAt - h.told.StopAt)
	if gain <= 0 {
		return false
	}
	near := time.Duration(h.told.StopAt-now) < max(h.lease.Lease/4, 2*timing.Window)
	if near {
		return gain >= timing.Heartbeat/4
	}
	return gain >= min(max(h.lease.Lease/10, minStep), maxStep)
}
