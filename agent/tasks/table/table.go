package table

import (
	"log/slog"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/agent/gpus/holding"
	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Config configures a Table.
type Config struct {
	Node string
	// MaxLaunches limits how many tasks are launched at once.
	MaxLaunches int
	// KeepTasks limits how many ended tasks keep their directory, KeepTasksFor how long they keep it.
	KeepTasks    int
	KeepTasksFor time.Duration

	Work   Work
	Outbox Outbox
	Leases Leases
	GPUs   GPUs
	Notes  Notes
	Log    *slog.Logger
}

// Table holds the tasks of a node.
type Table struct {
	cfg      Config
	tasks    map[taskid.ID]*Task
	order    []*Task // in order of arrival, so that iteration is repeatable
	adopted  bool    // the tasks of an earlier agent were adopted
	queue    []*Task
	holders  []*Task // tasks that have GPUs
	launches int
	finished int
	closing  bool
	idle     bool
}

// New returns a Table without tasks.
func New(cfg Config) *Table { return &Table{cfg: cfg, tasks: make(map[taskid.ID]*Task)} }

// Adopt takes over the tasks that an earlier agent left.
func (tb *Table) Adopt(left []Left, now time.Time) {
	for _, l := range left {
		t := &Task{ID: l.ID, Has: l.Has, state: Launching, disowned: l.Disowned, since: now}
		tb.add(t)
		if l.Ended {
			t.state, t.acked, t.endedAt = Ended, true, l.EndedAt
			continue
		}
		if l.Disowned {
			request := stopRequest(v1.StopReason_STALE, lease.MaxTerm)
			t.stop = &request
		}
		tb.hold(t)
		tb.log(t).Info("taking up a task again")
		tb.cfg.Work.Attach(t)
	}
	tb.EndFaulty()
	tb.sweep(now)
	tb.adopted = true
}

func (tb *Table) add(t *Task) {
	tb.tasks[t.ID] = t
	tb.order = append(tb.order, t)
}

func (tb *Table) remove(t *Task) {
	delete(tb.tasks, t.ID)
	tb.order = slices.DeleteFunc(tb.order, func(other *Task) bool { return other == t })
}

func (tb *Table) log(t *Task) *slog.Logger {
	return tb.cfg.Log.With("job", t.ID.Job, "attempt", t.ID.Attempt, "rank", t.ID.Rank)
}

// Reconcile brings the node's tasks toward the orders.
func (tb *Table) Reconcile(orders *v1.Orders, now time.Time) {
	tb.cfg.GPUs.Enabled(orders.GetEnabledAt())
	for _, t := range tb.order {
		t.wanted = false
	}
	for _, order := range orders.GetTasks() {
		id := taskid.Of(order.GetTask())
		if !id.Valid() {
			tb.cfg.Log.Error("order for a task with a bad name", "job", id.Job)
			continue
		}
		t, ok := tb.tasks[id]
		if !ok {
			if t = tb.take(id, order, now); t == nil {
				continue
			}
		}
		t.wanted = true
		if t.spec == nil {
			t.spec = order.GetSpec()
		}
		if order.GetSpec() != nil && t.state != Ended {
			tb.cfg.Leases.Want(id, order.GetSpec())
		}
		switch {
		case t.state == Ended && t.acked:
			// The coordinators have acknowledged the end, but do not know it any more: report it again.
			tb.reportEnd(t)
		case order.GetStop() != v1.StopReason_UNSPECIFIED:
			tb.Stop(t, stopRequest(order.GetStop(), time.Duration(order.GetGracePeriodSeconds())*time.Second))
		}
	}
	for _, t := range tb.order {
		if !t.wanted && t.state != Ended && !t.disowned {
			tb.disown(t)
			tb.log(t).Warn("stopping a task that is not wanted any more")
			tb.Stop(t, stopRequest(v1.StopReason_STALE, lease.MaxTerm))
		}
	}
	tb.LaunchNext()
}

// take accepts a new task from the orders.
func (tb *Table) take(id taskid.ID, order *v1.TaskOrder, now time.Time) *Task {
	if order.GetSpec() == nil && order.GetStop() == v1.StopReason_UNSPECIFIED {
		// The leader sends each specification once per session: start a new session.
		tb.cfg.Log.Warn("order without a specification", "job", id.Job)
		tb.cfg.Work.Restart()
		return nil
	}
	t := &Task{ID: id, spec: order.GetSpec(), since: now, Has: holding.Of(order.GetSpec())}
	tb.add(t)
	if order.GetStop() == v1.StopReason_UNSPECIFIED {
		tb.enqueue(t)
	}
	return t
}

// disown records that a task is no longer wanted: from then on only its end is reported, also by the next agent.
func (tb *Table) disown(t *Task) {
	t.disowned = true
	tb.cfg.Outbox.Drop(t.ID.Ref())
	if t.state == Queued {
		return // the task has no process and no directory
	}
	// The shim is told after this is on disk: the next agent must not report findings of the task while it is being
	// stopped.
	t.disowning = true
	tb.cfg.Work.Disown(t)
}

// Disowned is called when the record of Work.Disown is on disk, or could not be written.
func (tb *Table) Disowned(t *Task) {
	t.disowning = false
	tb.tellStop(t)
}

// Stop makes a task end.
func (tb *Table) Stop(t *Task, request shim.StopRequest) {
	if t.state == Ended {
		return
	}
	if t.stop != nil && t.stop.Notice <= request.Notice && t.stop.Term <= request.Term {
		return // an equal or earlier stop was requested already
	}
	t.stop = &request
	if t.state == Queued {
		tb.refuse(t, shim.Exit{Code: -1, Stopped: true, Message: "stopped before it was launched"})
		return
	}
	tb.tellStop(t)
}

func (tb *Table) tellStop(t *Task) {
	if t.stop != nil && t.process != nil && !t.disowning {
		tb.cfg.Work.Stop(t, t.process, *t.stop)
	}
}

// Attached is called when the shim of a task was started or found.
func (tb *Table) Attached(t *Task, process Process) {
	t.process = process
	tb.tellStop(t)
}

// Runs records that the command was started.
func (tb *Table) Runs(t *Task, pid int, at time.Time) {
	if t.state == Ended {
		return
	}
	t.state, t.pid = Running, pid
	tb.freeSlot(t)
	if at.After(t.since) { // otherwise an earlier agent launched the task
		tb.cfg.Notes.Launched(at.Sub(t.since))
	}
	tb.cfg.Outbox.Add(outbox.Launch(t.ID, &v1.Report{Body: &v1.Report_Running{Running: &v1.TaskRunning{Pid: int32(pid)}}}, at))
	tb.LaunchNext()
}

// refuse ends a task that has no shim. Its exit is written to disk, so that the next agent does not launch it.
func (tb *Table) refuse(t *Task, exit shim.Exit) {
	t.state = Launching // in this state it is not launched or stopped
	if t.cancelFetch != nil {
		t.cancelFetch()
	}
	tb.cfg.Work.Refuse(t, exit)
}

// NeverRan ends a task that could not be launched.
func (tb *Table) NeverRan(t *Task, exit shim.Exit) { tb.refuse(t, exit) }

// Report adds a report about a task. Reports about an unwanted task are dropped.
func (tb *Table) Report(t *Task, reports ...*outbox.Report) {
	if !t.disowned {
		tb.cfg.Outbox.Add(reports...)
	}
}

// Ends records that no process of the task is left.
func (tb *Table) Ends(t *Task, exit shim.Exit) {
	tb.letGo(t)
	tb.freeSlot(t)
	t.state, t.process, t.spec, t.inputs = Ended, nil, nil, nil
	tb.cfg.Work.Release(t.ID)
	tb.cfg.Leases.Drop(t.ID)
	t.exit = &exit
	t.endedAt = time.Unix(0, exit.Ended)
	tb.cfg.Notes.Ended(outcome(exit))
	tb.reportEnd(t)
	tb.LaunchNext()
	tb.checkIdle()
}

func (tb *Table) reportEnd(t *Task) {
	t.acked = false
	if t.exit == nil {
		tb.cfg.Work.Recall(t)
		return
	}
	r := outbox.About(t.ID, endedBody(*t.exit), time.Unix(0, t.exit.Ended))
	r.Acked = tb.cfg.Work.OnAcknowledged(t)
	tb.cfg.Outbox.Add(r)
}

// Recalled is called with a task's end after it was read from disk.
func (tb *Table) Recalled(t *Task, exit shim.Exit) {
	t.exit = &exit
	tb.reportEnd(t)
}

// Forget drops everything but the name of a task whose end is known: its directory is kept for its logs, for a while.
func (tb *Table) Forget(t *Task, now time.Time) {
	t.acked, t.exit = true, nil
	tb.Tidy(now)
}

// StopAll stops every task and accepts no new ones; Work.Idle is called when the last task has ended.
func (tb *Table) StopAll(grace time.Duration) {
	tb.closing = true
	for _, t := range tb.order {
		tb.Stop(t, shim.StopRequest{Term: grace})
	}
	tb.checkIdle()
}

func (tb *Table) checkIdle() {
	if tb.closing && !tb.idle && tb.Live() == 0 {
		tb.idle = true
		tb.cfg.Work.Idle()
	}
}

// EndFaulty stops the tasks on GPUs that failed.
func (tb *Table) EndFaulty() {
	for _, t := range tb.order {
		if t.state == Ended || t.faulted || len(t.Has.GPUs) == 0 {
			continue
		}
		why := tb.cfg.GPUs.Fault(t.Has.GPUs, time.Time{}, time.Time{})
		if why == "" {
			continue
		}
		t.faulted = true
		if t.state == Queued {
			tb.refuse(t, GivenBack(tb.cfg.Node, why))
			continue
		}
		tb.log(t).Error("stopping a task whose GPU failed", "gpu", why)
		tb.cfg.Work.Fault(t, why)
	}
}
