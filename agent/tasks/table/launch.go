package table

import (
	"slices"
	"time"

	"github.com/mindcoordinator/mind/agent/gpus/holding"
	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// enqueue queues a task for its launch when its inputs are on the node.
func (tb *Table) enqueue(t *Task) {
	if t.cancelFetch != nil {
		return // in progress
	}
	if !t.fetched {
		if cancel, needed := tb.cfg.Work.Fetch(t, t.spec); needed {
			t.cancelFetch = cancel
			// A job is shown as being prepared while its data is fetched. Fetching does not block the launches of other
			// tasks.
			tb.reportStarting(t)
			return
		}
		t.fetched = true
	}
	tb.queue = append(tb.queue, t)
}

func (tb *Table) reportStarting(t *Task) {
	tb.cfg.Outbox.Add(outbox.Launch(t.ID, &v1.Report{Body: &v1.Report_Starting{Starting: &v1.TaskStarting{}}}, time.Time{}))
}

// Fetched is called when the inputs of a task are on the node or cannot be fetched; in that case failed is the exit of
// the task.
func (tb *Table) Fetched(t *Task, inputs any, failed *shim.Exit) {
	t.cancelFetch = nil
	switch {
	case t.state != Queued || t.stop != nil:
		tb.cfg.Work.Release(t.ID) // the task was stopped meanwhile, and has ended
	case failed != nil:
		tb.log(t).Warn("the data of a task was not fetched", "why", failed.Message)
		tb.refuse(t, *failed)
	default:
		t.inputs, t.fetched = inputs, true
		tb.queue = append(tb.queue, t)
		tb.LaunchNext()
	}
}

// LaunchNext launches waiting tasks, a few at a time: more would only compete for the processors.
func (tb *Table) LaunchNext() {
	tb.cfg.Leases.Looked()
	var waiting []*Task
	defer func() { tb.queue = append(waiting, tb.queue...) }()
	for len(tb.queue) > 0 && tb.launches < tb.cfg.MaxLaunches && !tb.closing {
		t := tb.queue[0]
		tb.queue = tb.queue[1:]
		if t.state != Queued {
			continue // stopped meanwhile
		}
		ok, why := tb.cfg.Leases.MayLaunch(t.ID, t.spec)
		if other := tb.blocker(t); ok && other != nil {
			ok, why = false, "task "+other.ID.Name()+" still has its GPUs"
		}
		if !ok {
			waiting = append(waiting, t)
			if t.waitsFor != why {
				t.waitsFor = why
				tb.log(t).Info("a task waits to be launched", "why", why)
			}
			continue
		}
		tb.hold(t)
		t.state, t.slot = Launching, true
		tb.launches++
		tb.reportStarting(t)
		spec := t.spec
		t.spec = nil
		tb.cfg.Work.Launch(t, spec, t.inputs)
	}
}

// StillDue checks again whether a task must be launched: to wait for empty GPUs and to read checkpoints from a slow
// file system takes time, in which the orders or the permission to launch may have changed.
func (tb *Table) StillDue(t *Task, spec *v1.TaskSpec) bool {
	ok, why := tb.cfg.Leases.MayLaunch(t.ID, spec)
	switch {
	case t.stop != nil:
		tb.refuse(t, shim.Exit{Code: -1, Stopped: true, Message: "stopped before it was launched"})
		return false
	case !ok:
		tb.letGo(t)
		tb.freeSlot(t)
		t.state, t.spec, t.waitsFor = Queued, spec, why
		tb.queue = append(tb.queue, t)
		return false
	}
	return true
}

// Again queues a task that an earlier agent had accepted but not started.
func (tb *Table) Again(t *Task) {
	tb.letGo(t)
	switch {
	case t.stop != nil:
		t.state = Queued
		tb.refuse(t, shim.Exit{Code: -1, Stopped: true, Message: "stopped before it was launched"})
	case t.spec != nil:
		t.state, t.Has = Queued, holding.Of(t.spec)
		tb.enqueue(t)
		tb.LaunchNext()
	default:
		// The next orders contain it again if it is still wanted.
		tb.remove(t)
		tb.cfg.Leases.Drop(t.ID)
		if t.wanted {
			tb.cfg.Work.Restart()
		}
	}
}

func (tb *Table) freeSlot(t *Task) {
	if t.slot {
		t.slot = false
		tb.launches--
	}
}

// blocker returns a task that must end before t may be launched, because it still has one of its GPUs, whatever the
// coordinators believe. A task that is being stopped, or is no longer wanted, counts until it has no process left.
func (tb *Table) blocker(t *Task) *Task {
	if !t.Has.Any() {
		return nil
	}
	for _, other := range tb.holders {
		if other != t && t.Has.Excludes(other.Has) {
			return other
		}
	}
	return nil
}

// hold records that a task has, or may have, processes on its GPUs.
func (tb *Table) hold(t *Task) {
	if t.Has.Any() && !slices.Contains(tb.holders, t) {
		tb.holders = append(tb.holders, t)
	}
}

// letGo records that a task has no processes on its GPUs.
func (tb *Table) letGo(t *Task) {
	tb.holders = slices.DeleteFunc(tb.holders, func(other *Task) bool { return other == t })
}
