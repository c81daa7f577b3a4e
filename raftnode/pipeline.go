package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipeline carries entries to one follower. It differs from raft's own in two
// things.
//
// It ends itself when it takes nothing for too long. Raft stops to read
// from a pipeline once a follower refused an entry, and may send once more after
// that: the sender then waits for ever. The follower gets heartbeats and no
// entries any more, and the replica's shutdown never ends. Seen in virtual time,
// and by others (grafana/pyroscope pull request 5518, hashicorp/raft issue 612).
//
// And it ends itself at the first message that fails. Raft does not look at the
// error of a message: it would take the failure for contact with the follower, and
// a leader that was cut off would go on for a second lease.
type pipeline struct {
	raft.AppendPipeline
	patience time.Duration

	done   chan raft.AppendFuture
	once   sync.Once
	closed chan struct{}
}

// newPipeline returns a pipeline that must be closed.
func newPipeline(p raft.AppendPipeline, patience time.Duration) *pipeline {
	q := &pipeline{AppendPipeline: p, patience: patience, done: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go q.pass()
	return q
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	stuck := time.AfterFunc(p.patience, func() { _ = p.Close() })
	defer stuck.Stop()
	return p.AppendPipeline.AppendEntries(args, resp)
}

// pass passes on what the follower answers.
func (p *pipeline) pass() {
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			if f.Error() != nil {
				_ = p.Close()
				return
			}
			select {
			case p.done <- f:
			case <-p.closed:
				return
			}
		case <-p.closed:
			return
		}
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.AppendPipeline.Close()
}
