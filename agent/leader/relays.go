package leader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// relayTimeout limits how long a relayed renewal waits for the leader's answer.
	relayTimeout = 2 * time.Second
	// maxRelays limits how many relayed renewals wait at a time.
	maxRelays = 4096
)

// Relays holds the renewals of other agents that are in flight through this one.
type Relays struct {
	mu      sync.Mutex
	link    *link
	waiting map[relayed]chan struct{}
	passed  atomic.Uint64
}

type relayed struct {
	node string
	seq  uint64
}

// link is a session that carries relayed renewals.
type link struct {
	out  chan *v1.Renewal
	over chan struct{}
}

// NewRelays returns relays without a session.
func NewRelays() *Relays { return &Relays{waiting: make(map[relayed]chan struct{})} }

// open starts to use a session; close must be called when the session ends.
func (r *Relays) open() (renewals <-chan *v1.Renewal, close func()) {
	l := &link{out: make(chan *v1.Renewal), over: make(chan struct{})}
	r.mu.Lock()
	r.link = l
	r.mu.Unlock()
	return l.out, func() {
		r.mu.Lock()
		r.link = nil
		r.mu.Unlock()
		l.end()
	}
}

func (l *link) end() { close(l.over) }

// acked wakes the call that waits for this acknowledgement.
func (r *Relays) acked(ack *v1.RenewalAck) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := relayed{ack.GetNodeId(), ack.GetSeq()}
	if done, ok := r.waiting[name]; ok {
		delete(r.waiting, name)
		close(done)
		r.passed.Add(1)
	}
}

// pass sends a renewal in the current session and waits until the leader acknowledged it.
func (r *Relays) pass(ctx context.Context, renewal *v1.Renewal) error {
	name := relayed{renewal.GetNodeId(), renewal.GetSeq()}
	done := make(chan struct{})
	r.mu.Lock()
	l := r.link
	_, twice := r.waiting[name]
	crowded := len(r.waiting) >= maxRelays
	if l != nil && !twice && !crowded {
		r.waiting[name] = done
	}
	r.mu.Unlock()
	switch {
	case l == nil:
		return errNoSession
	case twice:
		return status.Error(codes.AlreadyExists, "this renewal is in flight already")
	case crowded:
		return status.Error(codes.ResourceExhausted, "too many renewals wait for an answer")
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.waiting[name] == done {
			delete(r.waiting, name)
		}
	}()
	for out := l.out; ; out = nil {
		select {
		case out <- renewal:
		case <-done:
			return nil
		case <-l.over:
			return errNoSession
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

var errNoSession = status.Error(codes.Unavailable, "not in session with a coordinator")

// Passed returns the number of relayed renewals that a leader acknowledged.
func (r *Relays) Passed() uint64 { return r.passed.Load() }

// Collector returns the metric of the relays.
func (r *Relays) Collector() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "mind_agent_relayed_total", Help: "Renewals of other nodes that a leader acknowledged in this node's session."}, func() float64 {
		return float64(r.Passed())
	})
}
