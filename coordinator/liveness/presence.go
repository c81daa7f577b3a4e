package liveness

import (
	"sync"
	"sync/atomic"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// maxRelays limits the renewals of other nodes that wait in one session. Further ones are dropped, and repeated by
// their nodes.
const maxRelays = 4096

// Presence is one session of a node: the last contact, and the renewals that wait.
type Presence struct {
	node  string
	began time.Time
	wake  func()
	at    int // index in the sessions of the term

	heard atomic.Int64 // after began
	// registered is set once the state knows the node as it said hello.
	registered atomic.Bool
	// begun is when the first heartbeat came, after began; 0: none yet. From then on the agent knows that it is in
	// session, and no longer tells others that it is not.
	begun atomic.Int64

	heartbeat atomic.Uint64 // highest number received
	renewed   atomic.Uint64 // highest number that may be acknowledged

	mu sync.Mutex
	// waiting are renewals of other nodes for which no proof of leadership has succeeded yet, ready those that may be
	// acknowledged.
	waiting, ready []*v1.RenewalAck
}

// Node returns the node of the session.
func (p *Presence) Node() string { return p.node }

// Hear records a contact with the node.
func (p *Presence) Hear(now time.Time) { p.heard.Store(int64(now.Sub(p.began))) }

// Beat records a heartbeat by its number. A round of renewals is due.
func (p *Presence) Beat(number uint64, now time.Time) {
	p.begun.CompareAndSwap(0, max(1, int64(now.Sub(p.began))))
	p.heartbeat.Store(number)
}

// Register records that the state has the node as described in its hello.
func (p *Presence) Register() { p.registered.Store(true) }

// Renewed returns the number of the newest heartbeat that may be acknowledged.
func (p *Presence) Renewed() uint64 { return p.renewed.Load() }

// Relayed returns the renewals of other nodes that may be acknowledged, each once.
func (p *Presence) Relayed() []*v1.RenewalAck {
	p.mu.Lock()
	defer p.mu.Unlock()
	ready := p.ready
	p.ready = nil
	return ready
}

// heardAt returns when the node was last in contact.
func (p *Presence) heardAt() time.Time { return p.began.Add(time.Duration(p.heard.Load())) }

func (p *Presence) settled(now time.Time, lately time.Duration) bool {
	begun := time.Duration(p.begun.Load())
	return begun != 0 && now.Sub(p.began.Add(begun)) > SettleTime && now.Sub(p.heardAt()) <= lately
}

func (p *Presence) put(ack *v1.RenewalAck) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) < maxRelays {
		p.waiting = append(p.waiting, ack)
	}
}

func (p *Presence) relays() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// confirm moves the first n renewals from waiting to ready.
func (p *Presence) confirm(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = append(p.ready, p.waiting[:n]...)
	p.waiting = append([]*v1.RenewalAck(nil), p.waiting[n:]...)
}
