package raftnode

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

var errSevered = errors.New("raft transport is closed")

// links is a stream layer that can close all of its open connections.
type links struct {
	raft.StreamLayer
	pacing *pacing

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
	// dialled is the time at which the newest connection to each address was ready.
	dialled map[raft.ServerAddress]time.Time
	err     error
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
	c, err := l.StreamLayer.Dial(addr, max(timeout, 2*l.pacing.timeout()))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	l.mu.Lock()
	l.dialled[addr] = time.Now()
	l.mu.Unlock()
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
	// The connections are closed without the lock and concurrently, because closing a TLS connection writes to it,
	// which may take time.
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

// dialledAt returns the time at which the newest connection to addr was ready.
func (l *links) dialledAt(addr raft.ServerAddress) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialled[addr]
}

// link is a connection of links. All deadlines on it are at least two timeouts away: for a connection that is given up
// another handshake is needed, and handshakes keep a slow machine slow.
type link struct {
	net.Conn
	owner *links
}

func (c *link) SetDeadline(t time.Time) error     { return c.Conn.SetDeadline(c.owner.atLeast(t)) }
func (c *link) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(c.owner.atLeast(t)) }

func (c *link) SetWriteDeadline(t time.Time) error {
	return c.Conn.SetWriteDeadline(c.owner.atLeast(t))
}

func (c *link) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c.Conn)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// atLeast returns a deadline that is at least two timeouts away; the zero time stays zero.
func (l *links) atLeast(t time.Time) time.Time {
	if patient := time.Now().Add(2 * l.pacing.timeout()); !t.IsZero() && t.Before(patient) {
		return patient
	}
	return t
}
