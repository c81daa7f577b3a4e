package liveness

import (
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
)

// RenewPace is the least time between two rounds of renewals. A lease counts from when its heartbeat was sent, so an
// acknowledgement that comes a little later costs the node nothing.
const RenewPace = 200 * time.Millisecond

// A heartbeat is acknowledged only after a majority of the voters confirmed this term in an exchange that began after the
// heartbeat had arrived. So a leader that was deposed renews nothing, and whatever a new leader counts from the beginning
// of its term counts from after the last renewal. One exchange serves all heartbeats that wait for it.

// Round is what had arrived when a proof of leadership began.
type Round struct{ waiting []unproven }

// unproven is what one session waits for.
type unproven struct {
	presence  *Presence
	heartbeat uint64
	relays    int
}

// Round collects what has arrived and is not acknowledged. The proof must begin after the call. A round that is over may
// be used again.
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

// Empty says that nothing waits: no proof is needed.
func (r *Round) Empty() bool { return len(r.waiting) == 0 }

// Confirm is called when the proof has come: what had arrived when it began may be acknowledged, and nothing that came
// later. It returns how many renewals that were, of the nodes themselves and through others.
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

// Relay takes in the renewal of another node, whose row the state has. It renews what that node holds, and does not make
// it reachable: nothing new may be given to a node to which orders do not come through. It is false when the renewal counts
// for nothing; otherwise a round of renewals is due.
func (t *Term) Relay(through *Presence, row *work.Node, r *v1.Renewal, now time.Time) bool {
	if row.ID == through.node || !mayRenew(row, r.GetBootId()) || !t.relayedFor(row.ID, now) {
		return false
	}
	t.Keep(row.ID, r.GetRosterVersion())
	through.put(&v1.RenewalAck{NodeId: row.ID, Seq: r.GetSeq()})
	return true
}

// mayRenew says whether leases of a node can be renewed through another one. Those of a node that was declared lost cannot:
// it may have been ordered to run what is at work elsewhere by now, and learns of that only when it registers again. A
// renewal after a restart of the machine renews nothing: what the state has there is gone.
func mayRenew(row *work.Node, boot string) bool { return row.BootID == boot && row.LostSince == 0 }

// relayedFor notes that a renewal of a node came through another one. It is false when that renews nothing: a proposal to
// declare the node lost may be in flight.
func (t *Term) relayedFor(node string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.barred[node] {
		return false
	}
	t.relayed[node] = now
	return true
}

// bar keeps a node from being renewed through others, from before its silence is measured for a proposal to declare it
// lost until the proposal is refused (Unbar), or the node registers: what it holds would be renewed and lost at once.
func (t *Term) bar(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.barred[node] = true
}

// Unbar ends it.
func (t *Term) Unbar(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.barred, node)
}
