package liveness

import (
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
)

// RenewPace is the least time between two rounds of renewals. A lease counts from when its heartbeat was sent, so an
// acknowledgement that comes a little later costs the node nothing.
const RenewPace = 200 * time.Millisecond

// A heartbeat is acknowledged only after a majority of the voters confirmed this term in a Raft round that began after the
// heartbeat had arrived. So a deposed leader renews nothing, and a new leader may count from the start of its term, which
// is after the last renewal. One round serves all waiting heartbeats.

// Round has the heartbeats and renewals that had arrived when a proof of leadership began.
type Round struct{ waiting []unproven }

// unproven has the heartbeat and the renewals of one session that wait for the proof.
type unproven struct {
	presence  *Presence
	heartbeat uint64
	relays    int
}

// Round collects the heartbeats and renewals that have arrived and are not acknowledged. The proof must begin after the
// call. A finished round may be reused.
func (t *Term) Round(again *Round) *Round {
	if again == nil {
		again = &Round{}
	}
	again.waiting = again.waiting[:0]
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, p := range t.sessions {
		w := unproven{presence: p, heartbeat: p.heartbeat.Load(), relays: p.relays()}
		if w.heartbeat != p.renewed.Load() || w.relays > 0 {
			again.waiting = append(again.waiting, w)
		}
	}
	return again
}

// Empty reports whether nothing waits, so that no proof is needed.
func (r *Round) Empty() bool { return len(r.waiting) == 0 }

// Confirm is called when the proof has succeeded: the heartbeats and renewals of the round may be acknowledged, and no
// later ones. It returns the number of renewals, of the nodes themselves and through others.
func (r *Round) Confirm() (direct, relayed int) {
	for _, w := range r.waiting {
		if w.heartbeat != w.presence.renewed.Load() {
			direct++
		}
		relayed += w.relays
		w.presence.renewed.Store(w.heartbeat)
		w.presence.confirm(w.relays)
		w.presence.wake()
	}
	return direct, relayed
}

// Relay accepts the renewal of another node, given the row of that node in the state. It renews the leases of that
// node, but does not make it reachable: a node that gets no orders must get no new tasks. It returns false if the
// renewal does not count; otherwise a round of renewals is due.
func (t *Term) Relay(through *Presence, row *work.Node, r *v1.Renewal, now time.Time) bool {
	if row.ID == through.node || !mayRenew(row, r.GetBootId()) || !t.relayedFor(row.ID, now) {
		return false
	}
	t.Keep(row.ID, r.GetRosterVersion())
	through.put(&v1.RenewalAck{NodeId: row.ID, Seq: r.GetSeq()})
	return true
}

// mayRenew reports whether leases of a node can be renewed through another node. Those of a lost node cannot, because
// its tasks may have been replaced, and it learns that only when it registers again. Those from before a restart of the
// machine cannot, because the tasks are gone.
func mayRenew(row *work.Node, boot string) bool { return row.BootID == boot && row.LostSince == 0 }

// relayedFor records that a renewal of a node came through another one. It returns false if that renews nothing,
// because a proposal to declare the node lost may be in flight.
func (t *Term) relayedFor(node string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.barred[node] {
		return false
	}
	t.relayed[node] = now
	return true
}

// bar refuses renewals of a node through others, from before its silence is measured for a proposal to declare it lost
// until the proposal is refused (Unbar) or the node registers: otherwise its tasks could be renewed and lost at the same
// time.
func (t *Term) bar(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.barred[node] = true
}

// Unbar undoes bar.
func (t *Term) Unbar(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.barred, node)
}
