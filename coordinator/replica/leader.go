package replica

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
)

// IsLeader says whether this replica leads, as far as it knows.
func (r *Replica) IsLeader() bool { return r.Raft().IsLeader() }

// Leader is the id and gRPC address of the leader; the address is empty when it is not known (yet).
func (r *Replica) Leader() (id, addr string) {
	if id, _ = r.Raft().Leader(); id == "" {
		return "", ""
	}
	return id, r.GRPCAddr(id)
}

// GRPCAddr is where a coordinator is reached, "" when that is not known (yet).
func (r *Replica) GRPCAddr(id string) string {
	if row, ok := r.View().Coordinator(id); ok && row.GRPCAddr != "" {
		return row.GRPCAddr
	}
	return r.config.Listed[id]
}

// RefreshLeader brings what this replica knows of the leader up to date.
func (r *Replica) RefreshLeader() {
	hint := ""
	if id, addr := r.Leader(); addr != "" {
		hint = id + "=" + addr
	}
	r.leader.set(hint)
}

// FollowLeader refreshes it on each change, until ctx ends.
func (r *Replica) FollowLeader(ctx context.Context) {
	changes, stop := r.Raft().LeaderChanges()
	defer stop()
	for {
		r.RefreshLeader()
		select {
		case <-changes:
		case <-ctx.Done():
			return
		}
	}
}

// LeaderHint is "id=grpc_addr" of the leader, for the answers; empty: none is known.
func (r *Replica) LeaderHint() string {
	if hint := r.leader.newest.Load(); hint != nil {
		return *hint
	}
	return ""
}

// LeaderKnown is closed as soon as a leader is known.
func (r *Replica) LeaderKnown() <-chan struct{} { return r.leader.known() }

// knownLeader is the leader that this replica knows, for as long as it stays the same one.
type knownLeader struct {
	newest atomic.Pointer[string]

	mu     sync.Mutex
	hint   string // "id=grpc_addr"; empty: none
	ctx    context.Context
	cancel context.CancelFunc
}

// set tells which leader is known now; hint empty: none.
func (e *knownLeader) set(hint string) {
	e.newest.Store(&hint)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx != nil && e.hint == hint {
		return
	}
	if e.cancel != nil {
		e.cancel()
	}
	e.hint = hint
	e.ctx, e.cancel = context.WithCancel(context.Background())
}

func (e *knownLeader) known() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx != nil && e.hint == "" {
		return e.ctx.Done()
	}
	now := make(chan struct{})
	close(now)
	return now
}

// deposedGrace is how long a leader that leads no more may still take to answer: one that handed leadership on in an
// orderly way answers what it was asked before.
const deposedGrace = 500 * time.Millisecond

// afterEnd calls f a little after the leader at that address is not known to lead any more, unless ctx ends or stop is
// called before.
func (e *knownLeader) afterEnd(ctx context.Context, addr string, f func()) (stop func() bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil || !strings.HasSuffix(e.hint, "="+addr) {
		// The caller heard of this leader from elsewhere, before this replica did.
		return func() bool { return true }
	}
	return context.AfterFunc(e.ctx, func() {
		if wait.For(ctx, deposedGrace); ctx.Err() == nil {
			f()
		}
	})
}
