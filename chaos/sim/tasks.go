package sim

import (
	"time"

	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/agent/tasks/table"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/sim/machine"
)

// quick limits how long a request to a disk or a shim takes.
const quick = 20 * ms

// worker carries out the decisions of the table. It implements table.Work.
type worker life

func (w *worker) life() *life { return (*life)(w) }

// soon schedules an action of the agent.
func (w *worker) soon(do func()) { w.n.After(w.n.w.Within(0, quick), do) }

// Fetch implements table.Work: no task has data.
func (w *worker) Fetch(*table.Task, *v1.TaskSpec) (func(), bool) { return nil, false }

// Launch implements table.Work. Some launches take long.
func (w *worker) Launch(t *table.Task, spec *v1.TaskSpec, _ any) {
	n, took := w.n, quick
	if n.w.Chance(0.5) {
		took = n.w.knobs.launch
	}
	n.After(n.w.Within(0, took), func() {
		if !w.table.StillDue(t, spec) {
			return
		}
		of, d, _ := w.book.Launched(t.ID.Name(), n.Clock())
		r := n.Create(t.ID)
		r.Spec, r.Lease = spec, of
		w.life().follow(t, n.Launch(r, shimDeadline(d)))
	})
}

// Attach implements table.Work.
func (w *worker) Attach(t *table.Task) {
	w.soon(func() {
		r := w.n.Find(t.ID)
		p := w.n.Attach(r)
		if r.Exit == nil && p == nil {
			r.Exit = &shim.Exit{Code: -1, Failure: shim.FailureInternal, Message: "the machine lost power", Ended: w.n.w.Wall()}
		}
		if r.Exit != nil {
			w.table.Ends(t, *r.Exit)
			return
		}
		d := p.Deadline()
		w.book.Keep(r.Name, r.Lease)
		w.book.Restore(r.Name, lease.Deadline{StopAt: d.StopAt, DeadBy: d.DeadBy, Renewed: d.Renewed})
		w.life().follow(t, p)
	})
}

// follower is an agent that follows a task, as long as the agent is alive. It implements machine.Follower.
type follower struct {
	*life
	task *table.Task
}

func (l *life) follow(t *table.Task, p *machine.Process) {
	l.book.Held(t.ID.Name(), true)
	l.table.Attached(t, p)
	p.Follow(&follower{l, t})
}

// hear makes the agent handle an event, if it is alive.
func (f *follower) hear(do func()) {
	if f.current() {
		f.n.After(0, do)
	}
}

// Runs implements machine.Follower.
func (f *follower) Runs(pid int, at time.Time) { f.hear(func() { f.table.Runs(f.task, pid, at) }) }

// Exited implements machine.Follower.
func (f *follower) Exited(exit shim.Exit) {
	f.hear(func() {
		f.book.Held(f.task.ID.Name(), false)
		f.table.Ends(f.task, exit)
	})
}

// Stop implements table.Work.
func (w *worker) Stop(_ *table.Task, process table.Process, request shim.StopRequest) {
	_ = process.Stop(request)
}

// Refuse implements table.Work.
func (w *worker) Refuse(t *table.Task, exit shim.Exit) {
	w.soon(func() {
		exit.Ended = w.n.w.Wall()
		r := w.n.Find(t.ID)
		if r == nil {
			r = w.n.Create(t.ID)
		}
		r.Exit = &exit
		w.table.Ends(t, exit)
	})
}

// Disown implements table.Work.
func (w *worker) Disown(t *table.Task) {
	w.soon(func() {
		if r := w.n.Find(t.ID); r != nil {
			r.Disowned = true
		}
		w.table.Disowned(t)
	})
}

// Fault implements table.Work: no GPU fails.
func (w *worker) Fault(*table.Task, string) {}

// Recall implements table.Work.
func (w *worker) Recall(t *table.Task) {
	w.soon(func() { w.table.Recalled(t, *w.n.Find(t.ID).Exit) })
}

// OnAcknowledged implements table.Work.
func (w *worker) OnAcknowledged(t *table.Task) func() {
	return func() {
		w.soon(func() {
			if r := w.n.Find(t.ID); r != nil {
				r.Acked = true
			}
		})
		w.table.Forget(t, w.n.wall())
	}
}

// Release implements table.Work.
func (w *worker) Release(taskid.ID) {}

// MayRemove implements table.Work: there is no archive.
func (w *worker) MayRemove(taskid.ID, time.Time, time.Time) bool { return true }

// Remove implements table.Work.
func (w *worker) Remove(ids []taskid.ID) { w.n.Machine.Remove(ids) }

// Restart implements table.Work.
func (w *worker) Restart() {
	w.n.After(0, func() {
		if c := w.call; c != nil && c.core != nil {
			c.again()
		}
	})
}

// Idle implements table.Work: simulated agents are only killed.
func (w *worker) Idle() {}

// mailbox is the outbox with a clock. It implements table.Outbox.
type mailbox life

// Add implements table.Outbox. Reports with MayWait are sent a little later.
func (m *mailbox) Add(reports ...*outbox.Report) {
	l := (*life)(m)
	wait := l.n.w.Within(0, quick)
	if l.outbox.Add(l.n.wall(), reports...) {
		wait = 0
	}
	l.n.After(wait, l.flush)
}

// Drop implements table.Outbox.
func (m *mailbox) Drop(task *v1.TaskRef) { m.outbox.Drop(task) }

// leases is the lease book with a clock. It implements table.Leases.
type leases life

// Want implements table.Leases.
func (k *leases) Want(id taskid.ID, spec *v1.TaskSpec) {
	if task, ok := lease.TaskOf(spec); ok {
		k.book.Keep(id.Name(), task)
	}
}

// Drop implements table.Leases.
func (k *leases) Drop(id taskid.ID) { k.book.Drop(id.Name()) }

// Looked implements table.Leases.
func (k *leases) Looked() { k.book.Looked() }

// MayLaunch implements table.Leases. If a rule is off, the book is not asked about it.
func (k *leases) MayLaunch(id taskid.ID, spec *v1.TaskSpec) (ok bool, why string) {
	now, name := k.n.Clock(), id.Name()
	r := lease.Request{Leased: spec.GetLeaseMs() > 0, Replacement: spec.GetReplacement() && !k.n.w.without(RuleHold)}
	if !k.n.w.without(RuleSession) {
		return k.book.MayLaunch(name, r, now)
	}
	r.Leased = false
	ok, why = k.book.MayLaunch(name, r, now)
	if d, entitled := k.book.Deadline(name, now); ok && (!entitled || now >= d.StopAt) {
		return false, "nothing was renewed"
	}
	return ok, why
}

// well implements table.GPUs without faults, and table.Notes without metrics.
type well struct{}

// Enabled implements table.GPUs.
func (well) Enabled(uint64) {}

// Fault implements table.GPUs.
func (well) Fault([]int32, time.Time, time.Time) string { return "" }

// Launched implements table.Notes.
func (well) Launched(time.Duration) {}

// Ended implements table.Notes.
func (well) Ended(string) {}
