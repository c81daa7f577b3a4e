package coordinator

import (
	"context"
	"strconv"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm"
)

// read is the state that a call may answer from: this replica's, at once when the call asks for stale, and otherwise
// after everything that was acknowledged before the call began has been applied here.
func (s *server) read(ctx context.Context) (*fsm.View, error) {
	c := callOf(ctx)
	if !c.stale {
		index, err := s.readIndex(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.raft.WaitApplied(ctx, index); err != nil {
			return nil, err
		}
	}
	if err := s.retired(); err != nil {
		return nil, err
	}
	v := s.machine.View()
	c.index.Store(v.Index())
	return v, nil
}

// readIndex is an index that holds every write acknowledged before now. It waits for a leader, for a while.
func (s *server) readIndex(ctx context.Context) (uint64, error) {
	for giveUp := s.waitUntil(ctx); ; {
		var (
			index uint64
			err   error
		)
		if s.raft.IsLeader() {
			index, _, err = s.raft.ReadIndex(ctx)
		} else {
			index, err = s.barrier.wait(ctx, s.askLeader)
		}
		if err == nil {
			return index, nil
		}
		if !s.waitLeader(ctx, giveUp) {
			return 0, notSent("no leader confirmed the state (ask with %s: %s to read what this replica has): %v", status.KeyConsistency, status.Stale, err)
		}
	}
}

// askLeader fetches one read index from the leader.
func (s *server) askLeader() (uint64, error) {
	id, addr := s.leader()
	if addr == "" || id == s.config.ID {
		return 0, notSent("no leader is known")
	}
	conn, err := s.links.to(addr)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(s.life, max(time.Second, 2*s.raft.Timeout()))
	defer cancel()
	resp, err := v1.NewOperatorServiceClient(conn).ReadIndex(s.asReplica(ctx), &v1.ReadIndexRequest{})
	return resp.GetIndex(), err
}

// readBarrier lets reads share a question to the leader. A read joins the next question, never the one already on its
// way: that one may be older than a write this read must see.
type readBarrier struct {
	mu      sync.Mutex
	running bool
	next    *question
	wg      sync.WaitGroup
}

type question struct {
	answered chan struct{}
	index    uint64
	err      error
}

func (b *readBarrier) wait(ctx context.Context, ask func() (uint64, error)) (uint64, error) {
	b.mu.Lock()
	if b.next == nil {
		b.next = &question{answered: make(chan struct{})}
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

func (b *readBarrier) run(ask func() (uint64, error)) {
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

func parseIndex(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
