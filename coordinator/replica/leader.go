package replica

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
)

// IsLeader reports whether this replica leads, as far as it knows.
func (r *Replica) IsLeader() bool { return r.Raft().IsLeader() }

// Leader returns the id and the gRPC address of the leader; the address is empty if it is not known.
func (r *Replica) Leader() (id, addr string) {
	if id, _ = r.Raft().Leader(); id == "" {
		return "", ""
	}
	return id, r.GRPCAddr(id)
}

// GRPCAddr returns the gRPC address of a coordinator, or "" if it is not known.
func (r *Replica) GRPCAddr(id string) string {
	if row, ok := r.View().Coordinator(id); ok && row.GRPCAddr != "" {
		return row.GRPCAddr
	}
	return r.config.Listed[id]
}

// RefreshLeader updates this replica's data about the leader.
func (r *Replica) RefreshLeader() {
	hint := ""
	if id, addr := r.Leader(); addr != "" {
		hint = id + "=" + addr
	}
	r.leader.set(hint)
}

// FollowLeader calls RefreshLeader on each change of the leader, until ctx ends.
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

// LeaderHint returns "id=grpc_addr" of the leader, for answers; empty: none is known.
func (r *Replica) LeaderHint() string {
	if hint := r.leader.newest.Load(); hint != nil {
		return *hint
	}
	return ""
}

// LeaderKnown returns a channel that is closed as soon as a leader is known.
func (r *Replica) LeaderKnown() <-chan struct{} { return r.leader.known() }

// knownLeader is the leader that this replica knows.
type knownLeader struct {
	newest atomic.Pointer[string]

	mu     sync.Mutex
	hint   string // "id=grpc_addr"; empty: none
	ctx    context.Context
	cancel context.CancelFunc
}

// set replaces the known leader; an empty hint means none.
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

// deposedGrace is how long a deposed leader may still take to answer: after an orderly transfer it answers earlier
// calls.
const deposedGrace = 500 * time.Millisecond

// afterEnd calls f a little after the leader at an address is no longer known to lead, unless ctx ends or stop is
// called before.
func (e *knownLeader) afterEnd(ctx context.Context, addr string, f func()) (stop func() bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil || !strings.HasSuffix(e.hint, "="+addr) {
		// The caller learned about this leader earlier than this replica.
		return func() bool { return true }
	}
	return context.AfterFunc(e.ctx, func() {
		if wait.For(ctx, deposedGrace); ctx.Err() == nil {
			f()
		}
	})
}
