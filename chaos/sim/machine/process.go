package machine

import (
	"time"

	"github.com/mindcoordinator/mind/agent/shim"
)

// Follower is an agent that follows a task.
type Follower interface {
	Runs(pid int, at time.Time)
	Exited(exit shim.Exit)
}

// Process is a shim with its program. It does not need the agent.
type Process struct {
	m        *Machine
	r        *Record
	boot     int
	hold     shim.Hold
	plan     shim.StopPlan
	alive    bool
	exit     shim.Exit
	alarm    int // the number of the newest alarm; older ones are ignored
	follower Follower
}

// Launch starts a shim for a task. The program begins to run soon after, unless the deadline has passed.
func (m *Machine) Launch(r *Record, d shim.Deadline) *Process {
	p := &Process{m: m, r: r, boot: m.Boots, hold: shim.Hold{Deadline: d}, exit: shim.Exit{Code: -1}}
	r.process = p
	m.after(m.engine.Within(int64(time.Millisecond), int64(30*time.Millisecond)), p.start)
	return p
}

// Attach returns the shim of a task that has not ended; nil: it is gone.
func (m *Machine) Attach(r *Record) *Process {
	if p := r.process; p != nil && p.boot == m.Boots {
		return p
	}
	return nil
}

// Deadline returns the deadline that the shim enforces.
func (p *Process) Deadline() shim.Deadline { return p.hold.Deadline }

// Follow makes an agent the follower of the task, in place of any earlier one. If the program runs already, the agent
// is notified at once.
func (p *Process) Follow(f Follower) {
	p.follower = f
	if p.alive {
		p.follower.Runs(p.exit.Pid, time.Unix(0, p.exit.Started))
	}
}

func (p *Process) start() {
	m, id := p.m, p.r.ID
	if !m.Immortal && p.hold.Past(m.Clock()) {
		p.exit.Failure, p.exit.Message = shim.FailureNodeLost, "its deadline had passed"
		p.end()
		return
	}
	p.alive, p.exit.Pid, p.exit.Started = true, 1, m.engine.Wall()
	m.engine.Note("process starts", m.name, id.Job, id.Token, uint64(id.Attempt)<<16|uint64(id.Rank))
	m.watcher.Started(m, p.r)
	run, code := m.watcher.Program(p.r.Spec.GetJob().GetName())
	p.endIn(run, code)
	if p.follower != nil {
		p.Follow(p.follower)
	}
	p.look()
}

// endIn schedules the end of the program.
func (p *Process) endIn(d int64, code int) {
	p.m.after(d, func() {
		if p.alive {
			p.exit.Code = code
			p.end()
		}
	})
}

// Stop implements table.Process.
func (p *Process) Stop(r shim.StopRequest) error {
	p.m.after(p.m.engine.Within(0, int64(2*time.Millisecond)), func() {
		p.exit.Stopped = true
		p.plan.Ask(p.m.Time(), r)
		p.look()
	})
	return nil
}

// Extend takes a deadline from an agent. It does not change the alarm: an alarm that goes off too early is set again.
func (p *Process) Extend(d shim.Deadline) { p.hold.Extend(d) }

// look does the actions that are due, and sets the alarm.
func (p *Process) look() {
	if !p.alive {
		return
	}
	m := p.m
	next := int64(time.Hour)
	if !m.Immortal {
		due := p.hold.Look(m.Clock())
		if due.Begins {
			p.lapse()
		}
		if due.Ask {
			p.plan.Ask(m.Time(), due.Stop)
		}
		if due.LookAt != 0 {
			next = m.Until(due.LookAt)
		}
	}
	for p.alive {
		action, rest := p.plan.Step(m.Time())
		if action == shim.ActNone {
			next = min(next, int64(rest)+1)
			break
		}
		p.signal(action)
	}
	p.alarm++
	number := p.alarm
	m.after(next, func() {
		if p.alarm == number {
			p.look()
		}
	})
}

// lapse is called when the deadline comes before the end of the program.
func (p *Process) lapse() {
	p.m.engine.Note("shim stops", p.m.name, p.r.ID.Job, p.r.ID.Token, uint64(p.hold.DeadBy))
	if !p.exit.Stopped {
		p.m.watcher.Lapsed(p.m, p.r)
		p.exit.Stopped, p.exit.Failure, p.exit.Message = true, shim.FailureNodeLost, "stopped by its own node"
	}
}

// signal sends a signal to the program: some programs obey, and some have to be killed, which also takes time.
func (p *Process) signal(action shim.Action) {
	e := p.m.engine
	switch {
	case action == shim.ActKill && p.hold.Past(p.m.Clock()) && e.Chance(0.7):
		p.endIn(p.m.Until(p.hold.DeadBy), 137) // as late as allowed
	case action == shim.ActKill:
		p.endIn(e.Within(0, int64(200*time.Millisecond)), 137)
	case e.Chance(0.4):
		p.endIn(e.Within(0, int64(4*time.Second)), 143)
	}
}

// end records that no process of the task is left. It writes that to disk before it reports it.
func (p *Process) end() {
	p.m.engine.Note("process ends", p.m.name, p.r.ID.Job, p.r.ID.Token, uint64(p.exit.Code))
	p.alive, p.exit.Ended = false, p.m.engine.Wall()
	exit := p.exit
	p.r.Exit = &exit
	if p.follower != nil {
		p.follower.Exited(exit)
	}
}
