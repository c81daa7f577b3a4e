package lease

import (
	"iter"
	"slices"
	"time"
)

// maxUnanswered limits the unacknowledged renewals that are remembered: an acknowledgement of an older one would extend
// the leases by next to nothing.
const maxUnanswered = 256

// Keeper is the lease keeper of one node. It is not safe for concurrent use.
type Keeper struct {
	self   string
	timing Timing
	began  int64

	unanswered []renewal // by rising sequence number
	newest     uint64    // number of the last sent renewal
	renewed    int64     // when the newest acknowledged renewal was sent; 0: none

	inSession bool
	met       bool  // there was a session
	sessionAt int64 // when the session began; or when it ended, if it had renewed within two heartbeats

	closedAnswer  int64 // when this agent last answered a ping that its session is closed
	closedAnswers bool  // it has answered so at least once

	version  uint64
	rostered bool // there is a roster
	peers    []string
	closed   map[string]int64 // when the newest ping was sent that the peer answered so

	tasks map[string]*held
	keys  []string // of tasks, in the order in which they were added: iteration is repeatable
}

type renewal struct {
	seq    uint64
	sentAt int64
}

type held struct {
	Task
	known Deadline // the one that an earlier agent was entitled to
}

// New returns the keeper of an agent that starts now. self is its name.
func New(self string, timing Timing, now int64) *Keeper {
	return &Keeper{
		self: self, timing: timing.withDefaults(), began: now,
		closed: make(map[string]int64), tasks: make(map[string]*held),
	}
}

// Timing returns the timing of the keeper.
func (k *Keeper) Timing() Timing { return k.timing }

// Sent records that a renewal is about to be sent, directly or to a peer. It must be called before the renewal is sent.
// Numbers only rise, and no earlier agent of the node may have used them.
func (k *Keeper) Sent(seq uint64, now int64) {
	if seq <= k.newest {
		return
	}
	k.newest = seq
	if len(k.unanswered) == maxUnanswered {
		k.unanswered = slices.Delete(k.unanswered, 0, 1)
	}
	k.unanswered = append(k.unanswered, renewal{seq, now})
}

// Acked records that the leader acknowledged a renewal. It reports whether it is the newest acknowledged one: then the
// leases are renewed from the time at which it was sent, whenever the acknowledgement arrives.
func (k *Keeper) Acked(seq uint64) bool {
	at, found := slices.BinarySearchFunc(k.unanswered, seq, func(r renewal, seq uint64) int {
		switch {
		case r.seq < seq:
			return -1
		case r.seq > seq:
			return 1
		}
		return 0
	})
	if !found {
		return false
	}
	sentAt := k.unanswered[at].sentAt
	k.unanswered = slices.Delete(k.unanswered, 0, at+1)
	if sentAt <= k.renewed {
		return false
	}
	k.renewed = sentAt
	return true
}

// Renewed returns when the newest acknowledged renewal was sent; 0: none was yet.
func (k *Keeper) Renewed() int64 { return k.renewed }

// SessionOpened records that a coordinator welcomed the agent and has acknowledged a renewal since.
func (k *Keeper) SessionOpened(now int64) { k.inSession, k.met, k.sessionAt = true, true, now }

// SessionClosed records that the session is over: its stream has ended.
func (k *Keeper) SessionClosed(now int64) {
	if k.inSession && !k.alone(now) {
		k.sessionAt = now
	}
	k.inSession = false
}

// InSession reports whether there is a session in which a renewal was acknowledged. Only then is an order still valid:
// a task that was ordered in an earlier session may have been given to another node since, and a renewal that was
// relayed by a peer says nothing about that.
func (k *Keeper) InSession() bool { return k.inSession }

// AnswerPing returns the answer to a ping: whether the session is closed. An answer that it is closed binds the agent,
// see MayLaunchReplacement.
func (k *Keeper) AnswerPing(now int64) (closed bool) {
	if k.inSession {
		return false
	}
	k.closedAnswer, k.closedAnswers = max(k.closedAnswer, now), true
	return true
}

// LastClosedAnswer returns when AnswerPing last returned true; ok is false if it never did.
func (k *Keeper) LastClosedAnswer() (at int64, ok bool) { return k.closedAnswer, k.closedAnswers }

// MayLaunchReplacement reports whether a task may be launched whose earlier attempt may be alive on an unreachable
// node. Any answer about a closed session that this agent, or the one before it, may have given to that node must have
// expired.
func (k *Keeper) MayLaunchReplacement(now int64) bool {
	since := k.began
	if k.closedAnswers {
		since = max(since, k.closedAnswer)
	}
	return now-since > int64(k.timing.Window+k.timing.Settle)
}

// SetRoster replaces the roster, which must already be on disk.
func (k *Keeper) SetRoster(version uint64, members []string) {
	k.version, k.rostered = version, true
	k.peers = k.peers[:0]
	for _, m := range members {
		if m != k.self && !slices.Contains(k.peers, m) {
			k.peers = append(k.peers, m)
		}
	}
	slices.Sort(k.peers)
	for peer := range k.closed {
		if _, listed := slices.BinarySearch(k.peers, peer); !listed {
			delete(k.closed, peer)
		}
	}
}

// RosterVersion returns the version to name in renewals; 0: none.
func (k *Keeper) RosterVersion() uint64 { return k.version }

// Peers returns the other members of the roster, sorted.
func (k *Keeper) Peers() []string { return k.peers }

// PeerClosed records that a peer answered a ping, which was sent at sentAt, that its session was closed.
func (k *Keeper) PeerClosed(peer string, sentAt int64) {
	if _, listed := slices.BinarySearch(k.peers, peer); listed {
		if at, ok := k.closed[peer]; !ok || sentAt > at {
			k.closed[peer] = sentAt
		}
	}
}

// RunOn returns until when replaceable tasks may run on, whatever their lease. holds is true while every node that
// could run a replacement has answered within Window that it is cut off, too.
func (k *Keeper) RunOn(now int64) (stopAt int64, holds bool) {
	if !k.rostered {
		return 0, false
	}
	oldest := now
	for _, peer := range k.peers {
		at, ok := k.closed[peer]
		if !ok || now-at > int64(k.timing.Window) {
			return 0, false
		}
		oldest = min(oldest, at)
	}
	return oldest + int64(k.timing.Window), true
}

// Add begins to keep a task.
func (k *Keeper) Add(key string, task Task) {
	if h, ok := k.tasks[key]; ok {
		h.Task = task
		return
	}
	k.tasks[key] = &held{Task: task}
	k.keys = append(k.keys, key)
}

// Restore records the deadline that an earlier agent sent to the task's shim. It stays valid, and this keeper may
// extend it.
func (k *Keeper) Restore(key string, known Deadline) {
	if h, ok := k.tasks[key]; ok {
		h.known = h.known.later(known)
	}
}

// Remove forgets a task.
func (k *Keeper) Remove(key string) {
	if _, ok := k.tasks[key]; ok {
		delete(k.tasks, key)
		k.keys = slices.DeleteFunc(k.keys, func(other string) bool { return other == key })
	}
}

// Deadline returns until when a task may live, as far as is known. ok is false for an unknown task, and for a task that
// nothing entitles to live: it must not be launched.
func (k *Keeper) Deadline(key string, now int64) (_ Deadline, ok bool) {
	h, ok := k.tasks[key]
	if !ok {
		return Deadline{}, false
	}
	until, holds := k.RunOn(now)
	return k.deadline(h, until, holds)
}

// Deadlines returns the deadlines of all tasks that have one, in the order in which the tasks were added.
func (k *Keeper) Deadlines(now int64) iter.Seq2[string, Deadline] {
	return func(yield func(string, Deadline) bool) {
		until, holds := k.RunOn(now)
		for _, key := range k.keys {
			if d, ok := k.deadline(k.tasks[key], until, holds); ok && !yield(key, d) {
				return
			}
		}
	}
}

func (k *Keeper) deadline(h *held, runOn int64, holds bool) (Deadline, bool) {
	d := h.known
	d.RunsOn = false
	if k.renewed != 0 {
		d = d.later(k.leased(h.Task))
	}
	if d.StopAt == 0 {
		return Deadline{}, false
	}
	if holds && h.Replaceable && runOn > d.StopAt {
		// It is always early enough if the task is dead by the end of its lease.
		d.StopAt, d.DeadBy, d.RunsOn = runOn, max(d.DeadBy, runOn+int64(k.timing.RunOnStop)), true
	}
	return d, true
}

// leased returns the deadline that follows from the lease alone.
func (k *Keeper) leased(t Task) Deadline {
	stop := min(max(t.Stop, k.timing.MinStop), t.Lease/3)
	margin := k.timing.Margin + t.Lease/100*time.Duration(k.timing.MarginPercent)
	deadBy := k.renewed + int64(t.Lease-margin)
	return Deadline{StopAt: deadBy - int64(stop), DeadBy: deadBy, Renewed: k.renewed}
}

// alone reports whether the agent should ask its peers for help: for more than two heartbeats there was no session, or
// no renewal was acknowledged in it. It does not wait until an unanswered session closes: that takes longer than a
// short lease may last. An agent that never had a session is alone from the start: it may have adopted tasks that must
// end soon.
func (k *Keeper) alone(now int64) bool {
	since := k.sessionAt
	if k.inSession {
		since = max(since, k.renewed)
	}
	return !k.met || now-since > 2*int64(k.timing.Heartbeat)
}

// NeedRelay reports whether renewals should go through peers.
func (k *Keeper) NeedRelay(now int64) bool {
	return k.alone(now) && len(k.peers) > 0 && len(k.tasks) > 0
}

// pingLead is how many windows before the first stop the peers are pinged: earlier answers would have expired by then.
const pingLead = 3

// NeedPing reports whether peers should be asked about their sessions: the stop of a replaceable task is near, or was
// near and is postponed.
func (k *Keeper) NeedPing(now int64) bool {
	if !k.alone(now) || len(k.peers) == 0 {
		return false
	}
	for _, h := range k.tasks {
		if d, ok := k.deadline(h, 0, false); ok && h.Replaceable && d.StopAt-now < pingLead*int64(k.timing.Window) {
			return true
		}
	}
	return false
}
