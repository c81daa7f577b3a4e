package replica

import (
	"context"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
)

// Read returns the view from which a call may be answered: at once if the call asks for stale, and otherwise after all
// writes that were acknowledged before the call began have been applied here.
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

// readIndex returns an index that is not before any write acknowledged before the call. It waits for a leader, for a
// while.
func (r *Replica) readIndex(ctx context.Context) (uint64, error) {
	for giveUp := r.waitUntil(ctx); ; {
		var (
			index uint64
			err   error
		)
		if r.IsLeader() {
			index, _, err = r.Raft().ReadIndex(ctx)
		} else {
			index, err = r.joinRound(ctx)
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

// ReadIndex implements v1.OperatorServiceServer for the other replicas. Only the leader answers it.
func (r *Replica) ReadIndex(ctx context.Context, _ *v1.ReadIndexRequest) (*v1.ReadIndexResponse, error) {
	index, term, err := r.Raft().ReadIndex(ctx)
	if err != nil {
		return nil, err
	}
	return &v1.ReadIndexResponse{Index: index, Term: term}, nil
}

// Wait returns when the goroutines of the replica have ended, which they do soon after its life.
func (r *Replica) Wait() { r.asking.Wait() }

// joinRound lets reads share one question to the leader.
func (r *Replica) joinRound(ctx context.Context) (uint64, error) {
	next, _ := r.rounds.Join(func() bool {
		r.asking.Go(func() { r.rounds.Run(r.askLeader) })
		return true
	})
	return next.Wait(ctx)
}
