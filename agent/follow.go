package agent

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// launch starts the shim of a task and stays with it. It runs beside the owner.
func (a *agent) launch(t *task, spec *v1.TaskSpec, data *taskData) {
	if refused := a.fit(t); refused != nil {
		a.post(func() { a.neverRan(t, *refused) })
		return
	}
	s := a.shimSpec(t.key, t.dir, spec, data)
	if !a.stillDue(t, spec) {
		return
	}
	s.Lease = a.leases.spec(t.key)
	var prepare func(dir string) error
	if spec.GetJob().GetCommandConfig() == nil {
		prepare = func(dir string) error {
			if err := writeConfig(dir, spec.GetJob()); err != nil || data == nil {
				return err
			}
			return data.write(dir, t.dir)
		}
	}
	w := a.watch(t.dir, s)
	defer a.unwatch(w)
	handle, err := a.starter.Start(t.dir, s, prepare)
	if err != nil {
		a.leaveOutputs(w)
		a.log.Error("cannot launch a task", "job", t.key.job, "error", err)
		a.post(func() {
			a.neverRan(t, shim.Exit{Code: -1, Failure: shim.FailureLaunch, Message: "node " + a.cfg.NodeID + " could not launch the task: " + err.Error()})
		})
		return
	}
	a.mind(t, handle, w)
}

// stillDue looks once more whether a task is to be launched: GPUs that had to become empty and checkpoints on a slow file system
// take their time, in which an order may have come, or the leave to launch may have gone.
func (a *agent) stillDue(t *task, spec *v1.TaskSpec) bool {
	due := false
	a.ask(func() {
		ok, why := a.leases.mayLaunch(t.key, spec)
		switch {
		case t.stop != nil:
			a.neverRan(t, shim.Exit{Code: -1, Stopped: true, Message: "stopped before it was launched"})
		case !ok:
			a.letGo(t)
			a.freeSlot(t)
			t.state, t.spec, t.waitsFor = queued, spec, why
			a.queue = append(a.queue, t)
		default:
			due = true
		}
	})
	return due
}

// attach finds the shim of a task that an earlier agent launched.
func (a *agent) attach(t *task) {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		handle, err := a.starter.Attach(t.dir)
		switch {
		case a.endedUnread(t, err):
			return
		case err == nil:
			s, err := shim.ReadSpec(t.dir)
			if err != nil {
				// It runs or has ended all the same; what it writes is not seen.
				a.log.Error("cannot read the specification of a task", "dir", t.dir, "error", err)
			}
			a.leases.adopt(t.key, s.Lease)
			w := a.watch(t.dir, s)
			defer a.unwatch(w)
			a.mind(t, handle, w)
			return
		case errors.Is(err, runner.ErrNotBegun):
			if err := os.RemoveAll(t.dir); err == nil {
				a.post(func() { a.again(t) })
				return
			}
		}
		a.log.Error("cannot take up a task again", "dir", t.dir, "error", err)
		select {
		case <-time.After(pause):
		case <-a.over:
			return
		}
	}
}

// again queues a task that an earlier agent had taken up but not begun.
func (a *agent) again(t *task) {
	a.letGo(t)
	switch {
	case t.stop != nil:
		t.state = queued
		a.neverRan(t, shim.Exit{Code: -1, Stopped: true, Message: "stopped before it was launched"})
	case t.spec != nil:
		t.state, t.has = queued, holdingOf(t.spec)
		a.enqueue(t)
		a.launchNext()
	default:
		// The next orders bring it again, if it is still wanted.
		delete(a.tasks, t.key)
		a.leases.drop(t.key)
		if t.wanted {
			a.session.restart()
		}
	}
}

// watch begins to look at what a task will write.
func (a *agent) watch(dir string, s shim.Spec) *watcher {
	w := newWatcher(dir, s, limits{metrics: a.cfg.MetricsBytes, events: a.cfg.EventsBytes}, a.cfg.Data.Roots...)
	w.places.hidden = a.cfg.DataDir
	w.outputs = s.Dirs
	a.outputs.use(w.outputs)
	w.begin(a.moves, a.log)
	return w
}

func (a *agent) unwatch(w *watcher) {
	w.end()
	a.outputs.leave(w.outputs, false)
}

// leaveOutputs is called when no process of a task is left.
func (a *agent) leaveOutputs(w *watcher) {
	a.outputs.leave(w.outputs, true)
	w.outputs = nil
}

// mind follows a task to its end, or to the agent's.
func (a *agent) mind(t *task, handle Process, w *watcher) {
	defer handle.Close()
	a.leases.attach(t.key, handle)
	defer a.leases.attach(t.key, nil)
	a.post(func() {
		t.handle = handle
		if t.stop != nil {
			a.tellStop(t)
		}
	})
	w.remark = func(text string) { _ = handle.Remark(text) }
	looks := newLooks(func(ctx context.Context, l look) []finding {
		w.endedWell = l.endedWell
		return w.scan(ctx, l.at, l.last)
	})
	defer looks.close()
	ran := false
	tick := time.NewTimer(0)
	<-tick.C
	defer tick.Stop()
	for {
		select {
		case e, ok := <-handle.Events():
			switch {
			case !ok:
				return
			case e.Deadline != nil:
				a.leases.restore(t.key, *e.Deadline)
			case e.Running:
				ran = true
				// What the task writes is told after this.
				a.ask(func() { a.runs(t, e) })
				tick.Reset(watchInterval)
			case e.Exit != nil:
				exit := *e.Exit
				if exit.Pid != 0 {
					if !ran {
						a.ask(func() { a.runs(t, runner.Event{Running: true, Pid: exit.Pid, Time: exit.Started}) })
					}
					// What the task wrote last goes before the word of its end.
					found, whole := looks.last(exit.Code == 0, a.over)
					if a.isOver() {
						return // the next agent looks, and tells
					}
					if !whole {
						a.log.Error("what a task wrote last was not read in time", "dir", t.dir, "within", lastLook)
					}
					a.register(t, found)
				}
				a.leaveOutputs(w)
				exit = a.explain(t, exit)
				if len(t.has.gpus) > 0 {
					a.verifyEmpty(t.key, t.has)
				}
				a.post(func() { a.ends(t, exit) })
				return
			}
		case now := <-tick.C:
			looks.ask(now)
		case found := <-looks.found:
			tick.Reset(looks.came())
			a.register(t, found)
		case <-a.over:
			return
		}
	}
}

// register reports what a watcher found.
func (a *agent) register(t *task, found []finding) {
	if len(found) == 0 {
		return
	}
	reports := make([]*report, 0, len(found))
	for _, f := range found {
		r := t.report(f.body, f.at)
		r.latest, r.acked = f.latest, f.acked
		reports = append(reports, r)
	}
	a.ask(func() {
		// The work of a task that is not wanted is nobody's any more: not a word of it.
		if !t.disowned {
			a.outbox.add(reports...)
		}
	})
}
