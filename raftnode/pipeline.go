package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipeline sends entries to one follower. It differs from raft's own pipeline in three ways.
//
// It closes itself when a message cannot be sent for too long. Raft stops reading from a pipeline after a follower has
// refused an entry, but may send once more, and then the sender would wait for ever: the follower would get heartbeats
// but no entries, and Shutdown would not return. Tests in virtual time have shown this, and others have reported it
// (grafana/pyroscope pull request 5518, hashicorp/raft issue 612).
//
// And it closes itself after the first message that failed. Raft does not check the error of a message: it would count
// the failure as contact with the follower, and a leader that was cut off would lead for a second lease.
//
// And an answer of another replica than the follower counts as a failure.
type pipeline struct {
	raft.AppendPipeline
	patience time.Duration
	check    func(raft.RPCHeader) error

	done   chan raft.AppendFuture
	once   sync.Once
	closed chan struct{}
}

// newPipeline returns a pipeline, which must be closed. check says why an answer is not the follower's.
func newPipeline(p raft.AppendPipeline, patience time.Duration, check func(raft.RPCHeader) error) *pipeline {
	q := &pipeline{AppendPipeline: p, patience: patience, check: check, done: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go q.pass()
	return q
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	stuck := time.AfterFunc(p.patience, func() { _ = p.Close() })
	defer stuck.Stop()
	return p.AppendPipeline.AppendEntries(args, resp)
}

// pass passes the follower's answers to raft.
func (p *pipeline) pass() {
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			if f.Error() != nil || p.check(f.Response().RPCHeader) != nil {
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
