package sim

import (
	"fmt"
	"slices"

	"github.com/mindcoordinator/mind/agent/lease"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

const (
	gpusPerNode = 16
	maxTerm     = 10 * second
)

type taskState int

const (
	queued taskState = iota
	launching
	running
	ended
)

// key names a task.
type key struct {
	job     ident.Job
	attempt uint32
	rank    uint16
	token   uint64
}

func (k key) text() string { return fmt.Sprintf("%s/%d/%d/%d", k.job, k.attempt, k.rank, k.token) }

// task is one on a machine, with its shim and its process.
type task struct {
	key   key
	spec  spec
	state taskState
	acked bool // the state knows of its end; on disk
	stop  bool // it was told to end
	// disowned: it is not in the orders any more.
	disowned bool

	alive  bool
	told   lease.Deadline
	begun  bool // its shim is stopping it
	byOwn  bool // for its deadline
	deadAt int64

	exit  *int32
	cause v1.ErrorType_Value
	why   string
}

func (t *task) lease() lease.Task {
	return lease.Task{
		Lease: duration(t.spec.lease), Replaceable: t.spec.replaceable, Stop: duration(t.spec.grace + min(t.spec.grace, maxTerm)),
	}
}

// ordered brings what a node has toward what is wanted of it.
func (a *agent) ordered(s *session, orders []order) {
	if a.session != s {
		return
	}
	for _, o := range orders {
		i := slices.IndexFunc(a.tasks, func(t *task) bool { return t.key == o.key })
		stop := o.stop != v1.StopReason_UNSPECIFIED
		if i < 0 {
			t := &task{key: o.key, spec: o.spec}
			a.tasks = append(a.tasks, t)
			a.w.note("ordered", a.name, t.key.job.String(), t.key.token, uint64(t.key.attempt))
			if !stop {
				a.keeper.Add(t.key.text(), t.lease())
				continue
			}
		}
		t := a.tasks[len(a.tasks)-1]
		if i >= 0 {
			t = a.tasks[i]
		}
		switch {
		case t.state == ended && t.acked:
			t.acked = false
			a.report(t, work.ReportEnded)
		case stop:
			a.stop(t, o.grace)
		}
	}
	for _, t := range slices.Clone(a.tasks) {
		wanted := slices.ContainsFunc(orders, func(o order) bool { return o.key == t.key })
		if !wanted && t.state != ended && !t.disowned {
			t.disowned = true
			a.stop(t, 0)
		}
	}
	a.launchNext()
}

// stop has a task end.
func (a *agent) stop(t *task, grace int64) {
	if t.state == ended || t.stop {
		return
	}
	t.stop = true
	a.w.note("told to stop", a.name, t.key.job.String(), t.key.token, uint64(grace))
	switch t.state {
	case queued:
		a.neverRan(t)
	case running:
		a.begin(t, a.clock()+a.w.within(0, grace+min(max(grace, second), maxTerm)), false)
	}
}

func (a *agent) neverRan(t *task) {
	code := int32(-1)
	a.ends(t, &code, v1.ErrorType_UNSPECIFIED, "")
}

// blocked says whether another task still has GPUs that this one is to have.
func (a *agent) blocked(t *task) bool {
	return slices.ContainsFunc(a.tasks, func(o *task) bool {
		return o != t && (o.state == launching || o.state == running) && o.spec.gpus&t.spec.gpus != 0
	})
}

func (a *agent) mayLaunch(t *task) bool {
	if (a.session == nil || !a.session.proven) && !a.w.without(RuleSession) {
		return false
	}
	if t.spec.replacement && !a.w.without(RuleHold) && !a.keeper.MayLaunchReplacement(a.clock()) {
		return false
	}
	d, ok := a.keeper.Deadline(t.key.text(), a.clock())
	return ok && a.clock() < d.StopAt
}

// launchNext begins to launch what may be launched. A launch takes its time, and looks once more.
func (a *agent) launchNext() {
	for _, t := range a.tasks {
		if t.state != queued || t.stop || a.blocked(t) || !a.mayLaunch(t) {
			continue
		}
		t.state = launching
		a.later(a.w.within(0, a.w.knobs.launch), func() { a.launch(t) })
	}
}

func (a *agent) launch(t *task) {
	switch {
	case t.state != launching:
		return
	case t.stop:
		a.neverRan(t)
		return
	case !a.mayLaunch(t):
		t.state = queued
		return
	}
	d, _ := a.keeper.Deadline(t.key.text(), a.clock())
	t.told, t.state = d, running
	// From here on it is the shim's, whatever becomes of the agent.
	boot := a.boots
	a.w.after(a.w.within(ms, 30*ms), func() {
		if !a.powered || a.boots != boot || t.state != running {
			return
		}
		a.startProcess(t)
	})
}

// startProcess is the shim's: the task begins to run, unless its deadline has passed.
func (a *agent) startProcess(t *task) {
	if a.clock() >= t.told.StopAt || t.begun {
		a.ends(t, nil, v1.ErrorType_NODE_LOST, "its deadline had passed")
		return
	}
	t.alive = true
	a.w.seen.Launches++
	if t.spec.replacement {
		a.w.seen.Replacements++
	}
	a.w.note("process starts", a.name, t.key.job.String(), t.key.token, uint64(t.key.attempt)<<16|uint64(t.key.rank))
	a.w.truth.started(a, t)
	a.guard(t)
	boot := a.boots
	run, code := a.w.users.behaviour(t.spec.name)
	a.w.after(run, func() {
		if a.powered && a.boots == boot && t.alive && !t.begun {
			a.ends(t, &code, v1.ErrorType_UNSPECIFIED, "")
		}
	})
	a.later(0, func() { a.report(t, work.ReportRunning) })
}

// guard has the shim look when its deadline comes.
func (a *agent) guard(t *task) {
	if a.w.without(RuleDeadline) {
		return
	}
	boot := a.boots
	a.w.after(a.until(t.told.StopAt), func() {
		switch {
		case !a.powered || a.boots != boot || !t.alive || t.byOwn:
		case a.clock() < t.told.StopAt:
			a.guard(t)
		default:
			t.byOwn = true
			a.w.note("shim stops", a.name, t.key.job.String(), t.key.token, uint64(t.told.DeadBy))
			a.w.stoppedByDeadline(a, t)
			dead := t.told.DeadBy
			if a.w.chance(0.3) {
				dead = a.w.within(t.told.StopAt, t.told.DeadBy)
			}
			a.begin(t, dead, true)
		}
	})
}

// begin begins a stop that will have ended the process by then, on the machine's clock.
func (a *agent) begin(t *task, deadAt int64, own bool) {
	if !t.begun || deadAt < t.deadAt {
		t.deadAt = deadAt
	}
	t.begun = true
	boot := a.boots
	a.w.after(a.until(t.deadAt), func() {
		if !a.powered || a.boots != boot || t.state == ended {
			return
		}
		if own {
			a.ends(t, nil, v1.ErrorType_NODE_LOST, "stopped by its own node")
			return
		}
		code := int32(143)
		a.ends(t, &code, v1.ErrorType_UNSPECIFIED, "")
	})
}

// ends is the end of a task. It is on disk; the agent tells of it if it is there.
func (a *agent) ends(t *task, code *int32, cause v1.ErrorType_Value, why string) {
	if t.state == ended {
		return
	}
	a.w.note("process ends", a.name, t.key.job.String(), t.key.token, uint64(t.state))
	t.alive, t.state = false, ended
	t.exit, t.cause, t.why = code, cause, why
	a.later(0, func() {
		a.keeper.Remove(t.key.text())
		a.report(t, work.ReportEnded)
		a.launchNext()
	})
}
