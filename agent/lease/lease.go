// Package lease decides how long the tasks of a node may live, and when a replacement may be launched on it: the agent's
// part of rules R1 to R3 of docs/operate/failure-model.md.
//
// Contract: the agent reports events to a Keeper (a renewal was sent, or acknowledged; a peer answered that its session
// is closed; the roster changed) and asks it for deadlines. The Keeper is pure: no clock, no I/O, no goroutine.
// Instants are nanoseconds of one clock that runs while the machine sleeps and is the same for all processes of the
// machine (CLOCK_BOOTTIME).
//
// Guarantees: a deadline is never later than the time at which the newest acknowledged renewal was sent, plus the
// task's lease, minus a margin for clock drift. For a replaceable task it may instead be as late as the oldest of
// certain pings, plus Window and RunOnStop: of each other agent on the roster, the newest ping that it answered with
// "my session is closed". Events that are reported late make deadlines earlier, never later. A new Keeper has no
// acknowledgement and extends nothing.
//
// Book combines what an agent needs: a Keeper, the numbers of renewals, the permission to launch, and the deadlines that
// shims have.
//
// Not guaranteed: that a task ends at its deadline. Shims enforce that.
package lease

import "time"

// Timing holds the constants of the protocol. All nodes and coordinators must agree on them; the zero value means the
// defaults. Other values are for tests.
type Timing struct {
	// Heartbeat is how often a renewal is sent. Default 1 s.
	Heartbeat time.Duration
	// Window is how long the answer of a peer that its session is closed counts, from the time at which the ping was
	// sent (W). Default 5 s.
	Window time.Duration
	// RunOnStop is the time for a stop of a task that ran past its lease. Default 2 s.
	RunOnStop time.Duration
	// Settle is added to Window before a replacement may be launched; it is longer than RunOnStop. Default 3 s.
	Settle time.Duration
	// Margin and MarginPercent of the lease are reserved for clock drift, and for the kernel to clean up. Default 500
	// ms and 1.
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

// Task describes a task for the Keeper.
type Task struct {
	// Lease is the time from when an acknowledged renewal was sent to when the task must be dead.
	Lease time.Duration
	// Replaceable: another node may run the next attempt after that. Only such a task may run past its lease.
	Replaceable bool
	// Stop is how long a stop may take: notice and grace. At most a third of the lease is used for it.
	Stop time.Duration
}

// Deadline is when a task must end.
type Deadline struct {
	// StopAt is when the stop begins, DeadBy when no process may be left.
	StopAt, DeadBy int64
	// Renewed is when the newest acknowledged renewal was sent; 0: none is known.
	Renewed int64
	// RunsOn: the task runs past its lease, because no node could run a replacement.
	RunsOn bool
}

// later returns the later of two deadlines: each was valid when it was computed.
func (d Deadline) later(other Deadline) Deadline {
	return Deadline{
		StopAt: max(d.StopAt, other.StopAt), DeadBy: max(d.DeadBy, other.DeadBy),
		Renewed: max(d.Renewed, other.Renewed), RunsOn: d.RunsOn || other.RunsOn,
	}
}
