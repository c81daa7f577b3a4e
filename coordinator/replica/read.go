package replica

import (
	"context"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
)

// Read is the state that a call may answer from: this replica's, at once when the call asks for stale, and otherwise
// after everything that was acknowledged before the call began has been applied here.
func (r *Replica) Read(ctx context.Context) (*fsm.View, error) {
	c := call.Of(ctx)
	if !c.Stale {
		index, err := r.readIndex(ctx)
		if err != nil {
			return nil, err
		}
		if err := r.Raft().WaitApplied(ctx, index); err != nil {
			return nil, err
		}
	}
	if err := r.Retired(); err != nil {
		return nil, err
	}
	v := r.View()
	c.Index.Store(v.Index())
	return v, nil
}

// readIndex is an index that holds every write acknowledged before now. It waits for a leader, for a while.
func (r *Replica) readIndex(ctx context.Context) (uint64, error) {
	for giveUp := r.waitUntil(ctx); ; {
		var (
			index uint64
			err   error
		)
		if r.IsLeader() {
			index, _, err = r.Raft().ReadIndex(ctx)
		} else {
			index, err = r.rounds.join(ctx, r.askLeader)
		}
		if err == nil {
			return index, nil
		}
		if !r.waitLeader(ctx, giveUp) {
			return 0, call.NotSent("no leader confirmed the state (ask with %s: %s to read what this replica has): %v", status.KeyConsistency, status.Stale, err)
		}
	}
}

// askLeader fetches one read index from the leader.
func (r *Replica) askLeader() (uint64, error) {
	id, addr := r.Leader()
	if addr == "" || id == r.config.ID {
		return 0, call.NotSent("no leader is known")
	}
	conn, err := r.links.To(addr)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(r.config.Life, max(time.Second, 2*r.Raft().Timeout()))
	defer cancel()
	resp, err := v1.NewOperatorServiceClient(conn).ReadIndex(r.AsReplica(ctx), &v1.ReadIndexRequest{})
	return resp.GetIndex(), err
}

// ReadIndex answers the other replicas, for OperatorService. It is answered by the leader or not at all.
func (r *Replica) ReadIndex(ctx context.Context, _ *v1.ReadIndexRequest) (*v1.ReadIndexResponse, error) {
	index, term, err := r.Raft().ReadIndex(ctx)
	if err != nil {
		return nil, err
	}
	return &v1.ReadIndexResponse{Index: index, Term: term}, nil
}

// Wait returns when the goroutines of the replica have ended, which they do soon after its life.
func (r *Replica) Wait() { r.rounds.wg.Wait() }

// rounds lets reads share a question to the leader. A read joins the next round, never the one in flight: that one may be
// older than a write that this read must see.
type rounds struct {
	mu      sync.Mutex
	running bool
	next    *round
	wg      sync.WaitGroup
}

type round struct {
	answered chan struct{}
	index    uint64
	err      error
}

func (b *rounds) join(ctx context.Context, ask func() (uint64, error)) (uint64, error) {
	b.mu.Lock()
	if b.next == nil {
		b.next = &round{answered: make(chan struct{})}
	}
	q := b.next
	if !b.running {
		b.running = true
		b.wg.Go(func() { b.run(ask) })
	}
	b.mu.Unlock()
	select {
	case <-q.answered:
		return q.index, q.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (b *rounds) run(ask func() (uint64, error)) {
	for {
		b.mu.Lock()
		q := b.next
		b.next = nil
		if q == nil {
			b.running = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		q.index, q.err = ask()
		close(q.answered)
	}
}
