package raftnode

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// pooledLinks are idle connections kept to each peer: one each for heartbeats,
// replication and votes.
const pooledLinks = 3

// transport is raft's network transport with two differences.
//
// Heartbeats take no short cut. NetworkTransport would hand them to raft on the
// connection's own goroutine, where they change term and state while the main
// loop is in the middle of using both; replicas' logs can then diverge
// (hashicorp/raft issue 695, open at the time of writing). With the handler
// never set every message goes through the main loop. The price: a follower
// that waits for its disk does not answer heartbeats meanwhile, so the timeouts
// must be longer than a slow write. NewRaft discards the handler's absence.
//
// And it notes who acknowledged this replica as leader, for linearizable reads
// and to tell which of the others are there.
type transport struct {
	*raft.NetworkTransport
	links    *links
	acks     acks
	contacts contacts
	// patience bounds how long a pipeline may take nothing.
	patience time.Duration
}

func openTransport(cfg Config, logger hclog.Logger) (*transport, error) {
	stream := cfg.Stream
	if stream == nil {
		var err error
		if stream, err = listen(cfg); err != nil {
			return nil, err
		}
	}
	l := &links{StreamLayer: stream, open: map[net.Conn]struct{}{}}
	return &transport{
		links:    l,
		patience: cfg.LinkTimeout,
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:  l,
			MaxPool: pooledLinks,
			Timeout: cfg.LinkTimeout,
			Logger:  logger,
		}),
	}, nil
}

// SetHeartbeatHandler does nothing; see transport.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries carries the heartbeats; entries mostly travel in the pipeline.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	mark := t.acks.sending()
	if err := t.NetworkTransport.AppendEntries(id, target, args, resp); err != nil {
		return err
	}
	// Success is not asked for: a follower that refuses entries which do not
	// fit its log still follows. One that has moved on answers its own term.
	if resp.Term == args.Term {
		t.acks.acknowledged(string(id), mark, args.Term)
		t.contacts.heard(string(id), resp)
	}
	return nil
}

// AppendEntriesPipeline returns a pipeline that does not get stuck.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return &pipeline{AppendPipeline: p, patience: t.patience}, nil
}

// pipeline ends itself when it takes nothing for too long. Raft stops to read
// from a pipeline once a follower refused an entry, and may send once more after
// that: the sender then waits for ever. The follower gets heartbeats and no
// entries any more, and the replica's shutdown never ends. Seen in virtual time,
// and by others (grafana/pyroscope pull request 5518, hashicorp/raft issue 612).
type pipeline struct {
	raft.AppendPipeline
	patience time.Duration
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	stuck := time.AfterFunc(p.patience, func() { _ = p.AppendPipeline.Close() })
	defer stuck.Stop()
	return p.AppendPipeline.AppendEntries(args, resp)
}

// Close ends every connection too, which NetworkTransport would leave to
// whoever sits at the other end.
func (t *transport) Close() error {
	return errors.Join(t.NetworkTransport.Close(), t.links.Close())
}

// sever ends all communication with the other replicas at once.
func (t *transport) sever() { _ = t.Close() }

var errSevered = errors.New("raft transport is closed")

// links is a stream layer that knows its open connections and can close them.
type links struct {
	raft.StreamLayer

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
	err    error
}

func (l *links) Accept() (net.Conn, error) {
	c, err := l.StreamLayer.Accept()
	if err != nil {
		return nil, err
	}
	return l.track(c)
}

func (l *links) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return nil, errSevered
	}
	c, err := l.StreamLayer.Dial(addr, timeout)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return l.track(c)
}

func (l *links) track(c net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return nil, errSevered
	}
	l.open[c] = struct{}{}
	return &link{Conn: c, owner: l}, nil
}

// Close may be called several times.
func (l *links) Close() error {
	l.mu.Lock()
	if l.closed {
		defer l.mu.Unlock()
		return l.err
	}
	l.closed = true
	open := l.open
	l.open = nil
	l.mu.Unlock()
	// Without the lock: closing a TLS connection writes a farewell, and must
	// not keep the others waiting.
	var closing sync.WaitGroup
	for c := range open {
		closing.Go(func() { _ = c.Close() })
	}
	closing.Wait()
	err := l.StreamLayer.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	return err
}

// link is a connection that leaves the list when it is closed.
type link struct {
	net.Conn
	owner *links
}

func (c *link) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c.Conn)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
