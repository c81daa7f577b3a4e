// Package lease decides how long the tasks of a node may live, and when a replacement may be launched on it: the agent's
// part of rules R1 to R3 of docs/operate/failure-model.md.
//
// Contract: the agent tells a Keeper what happens (a renewal was sent, or
// acknowledged; a peer says that its session is closed; the roster changed) and
// asks it for deadlines. The Keeper is pure: no clock, no I/O, no goroutine.
// Instants are nanoseconds of one clock that runs while the machine sleeps and
// is the same for all processes of the machine (CLOCK_BOOTTIME).
//
// Guarantees: a deadline is never later than the sending of the newest
// acknowledged renewal, plus the task's lease, less a margin for clocks that
// drift; or, for a task that may be replaced, than the oldest of the newest
// pings that every other agent on the roster answered with "my session is
// closed", plus Window and RunOnStop. Events that are handed in late make
// deadlines earlier, never later. A new Keeper knows of no acknowledgement and
// extends nothing.
//
// Book combines what an agent needs: a Keeper, the numbers of renewals, the permission to launch, and the deadlines that
// shims have.
//
// Not guaranteed: anything about tasks whose deadline is not enforced. That is
// what shims are for.
package lease

import "time"

// Timing are the constants of the protocol. All nodes and coordinators must
// agree on them; the zero value means the defaults. Other values are for tests.
type Timing struct {
	// Heartbeat is how often a renewal is sent. Default 1 s.
	Heartbeat time.Duration
	// Window is how long the word of a peer that its session is closed counts,
	// from the sending of the question (W). Default 5 s.
	Window time.Duration
	// RunOnStop is the time for a stop that ends a run-on. Default 2 s.
	RunOnStop time.Duration
	// Settle comes on top of Window before a replacement may be launched; it is
	// longer than RunOnStop. Default 3 s.
	Settle time.Duration
	// Margin and MarginPercent of the lease are left for clocks that drift, and
	// for the kernel to clean up. Default 500 ms and 1.
	Margin        time.Duration
	MarginPercent int
	// MinStop is the least time for a stop. Default 1 s.
	MinStop time.Duration
}

func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&t.Heartbeat, time.Second)
	set(&t.Window, 5*time.Second)
	set(&t.RunOnStop, 2*time.Second)
	set(&t.Settle, 3*time.Second)
	set(&t.Margin, 500*time.Millisecond)
	set(&t.MinStop, time.Second)
	if t.MarginPercent == 0 {
		t.MarginPercent = 1
	}
	return t
}

// Task is what the Keeper must know of a task.
type Task struct {
	// Lease is the time from the sending of a renewal that was answered to the
	// moment at which the task must be dead.
	Lease time.Duration
	// Replaceable: another node may run the next attempt after that. Only such a
	// task may run on.
	Replaceable bool
	// Stop is how long a stop may take: notice and grace. At most a third of the
	// lease is given.
	Stop time.Duration
}

// Deadline is until when a task may live.
type Deadline struct {
	// StopAt is when the stop begins, DeadBy when no process may be left.
	StopAt, DeadBy int64
	// Renewed is the sending of the newest renewal that was acknowledged; 0: none
	// is known.
	Renewed int64
	// RunsOn: the task lives past its lease, because nobody could run a
	// replacement.
	RunsOn bool
}

// later is the later of two: each was true when it was computed.
func (d Deadline) later(other Deadline) Deadline {
	return Deadline{
		StopAt: max(d.StopAt, other.StopAt), DeadBy: max(d.DeadBy, other.DeadBy),
		Renewed: max(d.Renewed, other.Renewed), RunsOn: d.RunsOn || other.RunsOn,
	}
}
