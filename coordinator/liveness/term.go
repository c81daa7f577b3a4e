package liveness

import (
	"slices"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
)

const (
	// SettleTime is how long a node must have been in session before it gets a task that may still be alive on a
	// disconnected node: rule R3, W plus the longest stop in run-on mode, with a margin.
	SettleTime = 8 * time.Second
	// FreshPeriod is the grace period of a new leader: tasks that are silent for longer than their jobs allow are given
	// up only after it, because nodes that were away during an outage need time to reconnect.
	FreshPeriod = 60 * time.Second
	// provenWithin limits the age of the newest proof of leadership; it is half of unreachableAfter if that is more: with
	// an older proof the term lacks a quorum.
	provenWithin = time.Second
)

// Term has the leader's data about the nodes' liveness in one term.
type Term struct {
	// unreachableAfter is how long a node may be silent before it is shown as unreachable.
	unreachableAfter time.Duration

	mu sync.RWMutex
	// opened is when the current grace period began.
	opened time.Time
	// byNode has the sessions of the nodes in session. sessions has all sessions that have not ended, in an order that
	// depends only on the calls.
	byNode   map[string]*Presence
	sessions []*Presence
	// seen is when each node was last in contact, also after its session; relayed is when a renewal of it last came through
	// another node.
	seen, relayed map[string]time.Time
	// barred are the nodes that are not renewed through others, because a proposal to declare them lost is in flight.
	barred map[string]bool
	// kept are the versions of the roster that nodes have on disk and that the state may not know.
	kept map[string]uint64
	// awake is when the process last ran; proven is when the newest proof of leadership began.
	awake, proven time.Time
}

// NewTerm returns the data of a new term. Leadership was proven at now.
func NewTerm(unreachableAfter time.Duration, now time.Time) *Term {
	return &Term{
		unreachableAfter: unreachableAfter, opened: now, awake: now, proven: now,
		byNode: map[string]*Presence{}, seen: map[string]time.Time{}, relayed: map[string]time.Time{},
		barred: map[string]bool{}, kept: map[string]uint64{},
	}
}

// Enter starts a session of a node, which replaces an older one. wake is called when the session has something to
// acknowledge; it must not block. The caller must call Leave.
func (t *Term) Enter(node string, now time.Time, wake func()) *Presence {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &Presence{node: node, began: now, wake: wake}
	t.byNode[node] = p
	p.at, t.sessions = len(t.sessions), append(t.sessions, p)
	return p
}

// Leave ends a session, once. The times of the node's last contact are kept.
func (t *Term) Leave(p *Presence) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.sessions[len(t.sessions)-1]
	last.at, t.sessions[p.at] = p.at, last
	t.sessions[len(t.sessions)-1] = nil
	t.sessions = t.sessions[:len(t.sessions)-1]
	if t.byNode[p.node] == p {
		delete(t.byNode, p.node)
		t.seen[p.node] = p.heardAt()
	}
}

// Proven records a proof of leadership in this term by the start of its Raft round.
func (t *Term) Proven(began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.proven = later(t.proven, began)
}

// Listening reports whether the silence of nodes is meaningful now. If not, every node gets a new grace period: this
// process was suspended (stoodStill) or has no fresh proof that it leads. It must be called more often than every half of
// unreachableAfter.
func (t *Term) Listening(now time.Time) (listening, stoodStill bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := t.unreachableAfter / 2
	stoodStill = now.Sub(t.awake) > limit
	t.awake = now
	listening = now.Sub(t.proven) <= max(limit, provenWithin)
	if stoodStill || !listening {
		t.opened = now
	}
	return listening, stoodStill
}

// Listened returns for how long the silence of nodes has counted.
func (t *Term) Listened(now time.Time) time.Duration {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return now.Sub(t.opened)
}

// LastSeen returns when a node was last in contact itself, at the earliest the beginning of the grace period.
func (t *Term) LastSeen(node string) (at time.Time, inSession bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.lastSeen(node)
}

func (t *Term) lastSeen(node string) (at time.Time, inSession bool) {
	if p := t.byNode[node]; p != nil {
		return later(t.opened, p.heardAt()), true
	}
	return later(t.opened, t.seen[node]), false
}

// LastRenewed returns when the leases of a node were last renewed, by itself or through another node, at the earliest
// the beginning of the grace period. through: the last renewal came through another node.
func (t *Term) LastRenewed(node string) (at time.Time, through bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	at, _ = t.lastSeen(node)
	if relayed := t.relayed[node]; relayed.After(at) {
		return relayed, true
	}
	return at, false
}

// RenewsThroughPeers reports whether a node that is not in session renews through other nodes.
func (t *Term) RenewsThroughPeers(node string, now time.Time) bool {
	at, through := t.LastRenewed(node)
	return through && now.Sub(at) <= t.unreachableAfter
}

// Settled reports whether a node has been in session for long enough, and was in contact recently enough, to start a
// task that may still be alive on a disconnected node (rule R3).
func (t *Term) Settled(node string, now time.Time) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p := t.byNode[node]
	return p != nil && p.settled(now, t.unreachableAfter)
}

// AllSettled returns the settled nodes, sorted.
func (t *Term) AllSettled(now time.Time) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var nodes []string
	for node, p := range t.byNode {
		if p.settled(now, t.unreachableAfter) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// Tick returns a Tick with the leader's data about the nodes that are away.
func (t *Term) Tick(v *fsm.View, listening bool, now time.Time) clusterverbs.Tick {
	tick := clusterverbs.Tick{Settled: listening && t.Listened(now) >= FreshPeriod}
	for n := range v.Nodes() {
		if n.UnreachableSince != 0 && t.RenewsThroughPeers(n.ID, now) {
			tick.Renewing = append(tick.Renewing, n.ID)
		}
	}
	return tick
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
