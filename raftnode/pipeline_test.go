package raftnode

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// parked is a pipeline in which no message can be sent.
type parked struct {
	raft.AppendPipeline
	answers chan raft.AppendFuture
	closed  chan struct{}
	once    sync.Once
}

func newParked() *parked {
	return &parked{answers: make(chan raft.AppendFuture), closed: make(chan struct{})}
}

func (p *parked) AppendEntries(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	<-p.closed
	return nil, raft.ErrPipelineShutdown
}

func (p *parked) Consumer() <-chan raft.AppendFuture { return p.answers }

func (p *parked) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// answer is the future of a message.
type answer struct {
	raft.AppendFuture
	err error
}

func (o *answer) Error() error { return o.err }

func (o *answer) Response() *raft.AppendEntriesResponse { return &raft.AppendEntriesResponse{} }

func TestPipeline_thatTakesNothingIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := newPipeline(newParked(), 3*time.Second, anyone)
		_, err := p.AppendEntries(nil, nil)
		require.ErrorIs(t, err, raft.ErrPipelineShutdown)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestPipeline_failuresAreNoContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newParked()
		p := newPipeline(inner, time.Minute, anyone)
		answered := &answer{}
		inner.answers <- answered
		require.Same(t, answered, <-p.Consumer())
		inner.answers <- &answer{err: errors.New("connection reset")}
		<-inner.closed // so the next message of raft fails
		select {
		case <-p.Consumer():
			t.Fatal("raft was told of a message that failed")
		default:
		}
	})
}

func anyone(raft.RPCHeader) error { return nil }
