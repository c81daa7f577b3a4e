package lease

import (
	"iter"
	"slices"
	"time"
)

// maxUnanswered bounds the renewals that are remembered: an acknowledgement of
// an older one would renew next to nothing.
const maxUnanswered = 256

// Keeper is the lease keeper of one node. It is not safe for concurrent use.
type Keeper struct {
	self   string
	timing Timing
	began  int64

	unanswered []renewal // by rising sequence number
	newest     uint64    // number of the last renewal that was sent
	renewed    int64     // sending of the newest acknowledged renewal; 0: none

	inSession bool
	met       bool  // there was a session
	sessionAt int64 // when the session began, or ended in time

	closedAnswer  int64 // when this agent last said that its session is closed
	closedAnswers bool  // it ever did

	version  uint64
	rostered bool // there is a roster
	peers    []string
	closed   map[string]int64 // sending of the newest ping that the peer answered so

	tasks map[string]*held
	keys  []string // of tasks, in the order of their coming: iteration is repeatable
}

type renewal struct {
	seq    uint64
	sentAt int64
}

type held struct {
	Task
	known Deadline // what an earlier agent was entitled to
}

// New returns the keeper of an agent that starts now. self is its name.
func New(self string, timing Timing, now int64) *Keeper {
	return &Keeper{
		self: self, timing: timing.withDefaults(), began: now,
		closed: make(map[string]int64), tasks: make(map[string]*held),
	}
}

// Timing is what the keeper goes by.
func (k *Keeper) Timing() Timing { return k.timing }

// Sent notes that a renewal is about to be sent, directly or to a peer. It must
// be told before the sending. Numbers only rise, and no earlier agent of the
// node may have used them.
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

// Acked notes that the leader acknowledged a renewal. It reports whether that
// was news: the leases are renewed as of its sending, whenever the word arrives.
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

// Renewed is the sending of the newest acknowledged renewal; 0: none yet.
func (k *Keeper) Renewed() int64 { return k.renewed }

// SessionOpened notes that a coordinator welcomed the agent, and acknowledged a
// renewal since.
func (k *Keeper) SessionOpened(now int64) { k.inSession, k.met, k.sessionAt = true, true, now }

// SessionClosed notes that the session is over: its stream has ended.
func (k *Keeper) SessionClosed(now int64) {
	if k.inSession && !k.alone(now) {
		k.sessionAt = now
	}
	k.inSession = false
}

// InSession reports whether there is a session in which a renewal was
// acknowledged. Only then is an order still good: what was ordered in a session
// that is over may have been given to another node since, and a renewal that came
// through a peer says nothing about it.
func (k *Keeper) InSession() bool { return k.inSession }

// AnswerPing is asked for the answer to a ping: whether the session is closed.
// Having said so binds the agent, see MayLaunchReplacement.
func (k *Keeper) AnswerPing(now int64) (closed bool) {
	if k.inSession {
		return false
	}
	k.closedAnswer, k.closedAnswers = max(k.closedAnswer, now), true
	return true
}

// LastClosedAnswer is when AnswerPing last returned true; ok is false when it
// never did.
func (k *Keeper) LastClosedAnswer() (at int64, ok bool) { return k.closedAnswer, k.closedAnswers }

// MayLaunchReplacement reports whether a task may be launched whose earlier
// attempt may be alive on a node that cannot be reached. What that node was told
// by this agent, or by the one before it, must have run out.
func (k *Keeper) MayLaunchReplacement(now int64) bool {
	since := k.began
	if k.closedAnswers {
		since = max(since, k.closedAnswer)
	}
	return now-since > int64(k.timing.Window+k.timing.Settle)
}

// SetRoster replaces the roster, which must be on disk by now.
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

// RosterVersion is the version to be named in renewals; 0: none.
func (k *Keeper) RosterVersion() uint64 { return k.version }

// Peers are the other members of the roster, sorted.
func (k *Keeper) Peers() []string { return k.peers }

// PeerClosed notes that a peer answered a ping, sent at sentAt, and said that
// its session was closed.
func (k *Keeper) PeerClosed(peer string, sentAt int64) {
	if _, listed := slices.BinarySearch(k.peers, peer); listed {
		if at, ok := k.closed[peer]; !ok || sentAt > at {
			k.closed[peer] = sentAt
		}
	}
}

// RunOn returns until when tasks that may be replaced run on, whatever their
// lease. It holds while everybody who could run a replacement said within
// Window that it is cut off, too.
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

// Restore notes the deadline that an earlier agent told the task's shim. It
// holds, and is extended by what this keeper learns itself.
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

// Deadline returns until when a task may live, as far as is known now. ok is
// false for a task that is not kept, and while nothing entitles it to live: it
// must not be launched then.
func (k *Keeper) Deadline(key string, now int64) (_ Deadline, ok bool) {
	h, ok := k.tasks[key]
	if !ok {
		return Deadline{}, false
	}
	until, holds := k.RunOn(now)
	return k.deadline(h, until, holds)
}

// Deadlines returns those of all tasks that have one, in the order in which the
// tasks came.
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
		// Dead by the lease's end is always early enough.
		d.StopAt, d.DeadBy, d.RunsOn = runOn, max(d.DeadBy, runOn+int64(k.timing.RunOnStop)), true
	}
	return d, true
}

// leased is the deadline by the lease alone.
func (k *Keeper) leased(t Task) Deadline {
	stop := min(max(t.Stop, k.timing.MinStop), t.Lease/3)
	margin := k.timing.Margin + t.Lease/100*time.Duration(k.timing.MarginPercent)
	deadBy := k.renewed + int64(t.Lease-margin)
	return Deadline{StopAt: deadBy - int64(stop), DeadBy: deadBy, Renewed: k.renewed}
}

// alone reports whether the agent should turn to its peers: there has been no
// session for more than two heartbeats, or nothing renewed in one: a session that
// is not answered takes its time to close, and a short lease has none. An agent
// that never had a session is alone from the start: it may have taken up tasks
// whose time is short.
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

// pingLead is how many windows before the first stop peers are asked: earlier
// answers would have run out by then.
const pingLead = 3

// NeedPing reports whether peers should be asked about their sessions: the stop
// of a task that may be replaced is near, or was near and is put off.
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
