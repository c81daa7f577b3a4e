package raftnode

import (
	"context"
	"sync"
)

// gate counts the calls that wait for an answer of raft, so that the node can wait until none is left. The zero value
// is open.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside int
	empty  chan struct{} // made when closed
}

// enter returns false if the gate is closed. If it returns true, leave must be called.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

func (g *gate) closeAndWait(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.empty = make(chan struct{})
	if g.inside == 0 {
		close(g.empty)
	}
	g.mu.Unlock()
	select {
	case <-g.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
