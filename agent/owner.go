package agent

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// owner is the one goroutine that reads and writes the tasks. Everybody else
// posts to it.
func (a *agent) owner(ctx context.Context) {
	for {
		select {
		case f := <-a.mail:
			f()
		case <-ctx.Done():
			return
		}
	}
}

// isOver says whether the tasks are to be let go of.
func (a *agent) isOver() bool {
	select {
	case <-a.over:
		return true
	default:
		return false
	}
}

// post runs f on the owner's goroutine, unless the agent is over.
func (a *agent) post(f func()) {
	select {
	case a.mail <- f:
	case <-a.over:
	}
}

// ask runs f on the owner's goroutine and waits for it.
func (a *agent) ask(f func()) {
	done := make(chan struct{})
	a.post(func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
	case <-a.over:
	}
}

// reconcile brings what the node has toward what is wanted of it.
func (a *agent) reconcile(orders *v1.Orders) {
	a.gpus.enabled(orders.GetEnabledAt())
	for _, t := range a.tasks {
		t.wanted = false
	}
	for _, order := range orders.GetTasks() {
		k := keyOf(order.GetTask())
		if !k.valid() {
			a.log.Error("order for a task with a bad name", "job", k.job)
			continue
		}
		t, ok := a.tasks[k]
		if !ok {
			if t = a.take(k, order); t == nil {
				continue
			}
		}
		t.wanted = true
		if t.spec == nil {
			t.spec = order.GetSpec()
		}
		if order.GetSpec() != nil && t.state != ended {
			a.leases.want(k, order.GetSpec())
		}
		switch {
		case t.state == ended && t.acked:
			// The coordinators knew, and do not any more: say it again.
			a.reportEnd(t)
		case order.GetStop() != v1.StopReason_UNSPECIFIED:
			a.stop(t, stopRequest(order.GetStop(), time.Duration(order.GetGracePeriodSeconds())*time.Second))
		}
	}
	for _, t := range a.tasks {
		if !t.wanted && t.state != ended && !t.disowned {
			a.withdraw(t)
			a.log.Warn("stopping a task that is not wanted any more", "job", t.key.job, "attempt", t.key.attempt, "rank", t.key.rank)
			a.stop(t, stopRequest(v1.StopReason_STALE, maxTerm))
		}
	}
	a.launchNext()
}

// take begins with a task that the node does not have.
func (a *agent) take(k key, order *v1.TaskOrder) *task {
	if order.GetSpec() == nil && order.GetStop() == v1.StopReason_UNSPECIFIED {
		// Specifications are sent once a session: get a new one.
		a.log.Warn("order without a specification", "job", k.job)
		a.session.restart()
		return nil
	}
	t := &task{key: k, dir: filepath.Join(a.tasksDir(), k.name()), spec: order.GetSpec(), since: time.Now(), has: holdingOf(order.GetSpec())}
	a.tasks[k] = t
	if order.GetStop() == v1.StopReason_UNSPECIFIED {
		a.enqueue(t)
	}
	return t
}

// stop makes a task end.
func (a *agent) stop(t *task, request shim.StopRequest) {
	if t.state == ended {
		return
	}
	if t.stop != nil && t.stop.Notice <= request.Notice && t.stop.Term <= request.Term {
		return // no news
	}
	t.stop = &request
	switch {
	case t.state == queued:
		a.neverRan(t, shim.Exit{Code: -1, Stopped: true, Message: "stopped before it was launched"})
	case t.handle != nil:
		a.tellStop(t)
	}
}

func (a *agent) tellStop(t *task) {
	if err := t.handle.Stop(*t.stop); err != nil {
		a.log.Error("cannot stop a task", "job", t.key.job, "error", err)
	}
}

// launchNext starts shims for queued tasks, a few at a time: more would only
// wait for each other.
func (a *agent) launchNext() {
	a.leases.look()
	var waiting []*task
	defer func() { a.queue = append(waiting, a.queue...) }()
	for len(a.queue) > 0 && a.launches < a.cfg.MaxLaunches && !a.closing {
		t := a.queue[0]
		a.queue = a.queue[1:]
		if t.state != queued {
			continue // stopped meanwhile
		}
		if ok, why := a.leases.mayLaunch(t.key, t.spec); !ok {
			waiting = append(waiting, t)
			if t.waitsFor != why {
				t.waitsFor = why
				a.log.Info("a task waits to be launched", "job", t.key.job, "attempt", t.key.attempt, "rank", t.key.rank, "why", why)
			}
			continue
		}
		if other := a.blocker(t); other != nil {
			waiting = append(waiting, t)
			if why := "task " + other.key.name() + " still has its GPUs"; t.waitsFor != why {
				t.waitsFor = why
				a.log.Info("a task waits to be launched", "job", t.key.job, "attempt", t.key.attempt, "rank", t.key.rank, "why", why)
			}
			continue
		}
		a.hold(t)
		t.state, t.slot = launching, true
		a.launches++
		a.outbox.add(t.progress(&v1.Report{Body: &v1.Report_Starting{Starting: &v1.TaskStarting{}}}, time.Time{}))
		spec, data := t.spec, t.data
		t.spec = nil
		a.minders.Go(func() { a.launch(t, spec, data) })
	}
}

// runs notes that the command was started.
func (a *agent) runs(t *task, e runner.Event) {
	if t.state == ended {
		return
	}
	t.state, t.pid = running, e.Pid
	a.freeSlot(t)
	at := time.Unix(0, e.Time)
	if at.After(t.since) { // else an earlier agent launched it
		a.metrics.launch.Observe(at.Sub(t.since).Seconds())
	}
	a.outbox.add(t.progress(&v1.Report{Body: &v1.Report_Running{Running: &v1.TaskRunning{Pid: int32(e.Pid)}}}, at))
	a.launchNext()
}

func (a *agent) freeSlot(t *task) {
	if t.slot {
		t.slot = false
		a.launches--
	}
}

// neverRan ends a task that has no shim. What ended it is written down, so
// that the next agent does not launch it.
func (a *agent) neverRan(t *task, exit shim.Exit) {
	exit.Ended = time.Now().UnixNano()
	t.state = launching // neither to be launched nor to be stopped any more
	if t.cancelData != nil {
		t.cancelData()
	}
	a.minders.Go(func() {
		err := os.MkdirAll(t.dir, 0o700)
		if _, missing := shim.ReadSpec(t.dir); err == nil && missing != nil {
			err = taskfile.Replace(t.dir, shim.SpecFile, shim.Spec{JobID: t.key.job, Refusal: exit.Message}.Encode())
		}
		if err == nil {
			err = shim.WriteExit(t.dir, exit)
		}
		if err != nil {
			a.log.Error("cannot write down the end of a task", "dir", t.dir, "error", err)
		}
		a.post(func() { a.ends(t, exit) })
	})
}

// ends notes that no process of the task is left.
func (a *agent) ends(t *task, exit shim.Exit) {
	a.letGo(t)
	a.freeSlot(t)
	t.state, t.handle, t.spec, t.data = ended, nil, nil, nil
	a.data.Release(t.key.name())
	a.leases.drop(t.key)
	t.exit = &exit
	t.endedAt = time.Unix(0, exit.Ended)
	a.metrics.ended.WithLabelValues(outcome(exit)).Inc()
	a.reportEnd(t)
	a.launchNext()
	a.checkIdle()
}

func (a *agent) reportEnd(t *task) {
	t.acked = false
	if t.exit == nil {
		a.minders.Go(func() {
			exit, err := runner.ReadExit(t.dir)
			exit = blame(t.dir, exit)
			if err != nil {
				exit = shim.Exit{Code: -1, Failure: shim.FailureInternal, Message: "how the task ended is not known any more: " + err.Error(), Ended: time.Now().UnixNano()}
			}
			a.post(func() {
				t.exit = &exit
				a.reportEnd(t)
			})
		})
		return
	}
	r := t.report(endedBody(*t.exit), time.Unix(0, t.exit.Ended))
	r.acked = func() {
		// A lost mark costs one more report.
		_ = shim.MarkAcked(t.dir)
		a.post(func() { a.forget(t) })
	}
	a.outbox.add(r)
}

// forget lets go of all but the name of a task whose end is known: its
// directory stays for its logs, for a while.
func (a *agent) forget(t *task) {
	t.acked, t.exit = true, nil
	a.tidy()
}

// tidy sweeps now and then, as tasks come to their end.
func (a *agent) tidy() {
	a.finished++
	if a.finished > a.cfg.KeepTasks/10+10 {
		a.sweep()
	}
}

// live counts tasks that have or may yet get processes.
func (a *agent) live() int {
	n := 0
	for _, t := range a.tasks {
		if t.state != ended {
			n++
		}
	}
	return n
}

// stopAll stops every task and takes on no more; idle is closed when the last
// one has ended.
func (a *agent) stopAll() {
	a.closing = true
	for _, t := range a.tasks {
		a.stop(t, shim.StopRequest{Term: a.cfg.StopGrace})
	}
	a.checkIdle()
}

func (a *agent) checkIdle() {
	if a.closing && a.live() == 0 && !a.isIdle {
		a.isIdle = true
		close(a.idle)
	}
}

func outcome(exit shim.Exit) string {
	switch {
	case exit.Failure != "":
		return exit.Failure
	case exit.Stopped:
		return "stopped"
	case exit.Code == 0:
		return "succeeded"
	}
	return "EXIT_NONZERO"
}
