// Package memnet implements a network in memory for tests of replicas: a stream layer for raft whose links can be cut
// in one or both directions at any time.
//
// Contract: a cut link loses nothing. As with TCP, sent bytes wait and arrive when the link is joined again, unless an
// end was closed before. Dialling needs both directions; if one of them is cut, it fails at its timeout.
//
// It uses only channels, mutexes and timers, so it works in a synctest bubble.
// Not modelled: bandwidth, limited buffers, reordering between connections.
package memnet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Network connects listeners by address.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*Stream
	cut       map[direction]bool
	delay     func() time.Duration
	// changed is closed and replaced whenever a cut is made or healed.
	changed chan struct{}
}

type direction struct{ from, to string }

// New returns a network without delays and cuts.
func New() *Network {
	return &Network{listeners: map[string]*Stream{}, cut: map[direction]bool{}, changed: make(chan struct{}), delay: func() time.Duration { return 0 }}
}

// SetDelay sets the delay of everything that is sent after the call.
func (n *Network) SetDelay(d time.Duration) { n.SetDelays(func() time.Duration { return d }) }

// SetDelays sets a function that returns the delay of each write after the call. The writes to a connection arrive in
// order, so one waits for slower ones before it. delays is called by one goroutine at a time.
func (n *Network) SetDelays(delays func() time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = delays
}

// Cut holds back everything that from sends to to.
func (n *Network) Cut(from, to string) { n.set(true, direction{from, to}) }

// Join ends a cut: everything that from sends to to arrives again.
func (n *Network) Join(from, to string) { n.set(false, direction{from, to}) }

// Isolate cuts all links of an address, in both directions.
func (n *Network) Isolate(addr string) {
	n.mu.Lock()
	var all []direction
	for other := range n.listeners {
		if other != addr {
			all = append(all, direction{addr, other}, direction{other, addr})
		}
	}
	n.mu.Unlock()
	n.set(true, all...)
}

// Heal ends all cuts.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	n.wake()
}

func (n *Network) set(cut bool, directions ...direction) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range directions {
		if cut {
			n.cut[d] = true
		} else {
			delete(n.cut, d)
		}
	}
	n.wake()
}

func (n *Network) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// flows reports whether a direction is not cut, and returns a channel that is closed when that may have changed.
func (n *Network) flows(d direction) (bool, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.cut[d], n.changed
}

// Listen opens an address. It may be opened again after Close.
func (n *Network) Listen(addr string) (*Stream, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		return nil, fmt.Errorf("listen %s: address in use", addr)
	}
	s := &Stream{network: n, addr: addr, incoming: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[addr] = s
	return s, nil
}

// Stream is the end point at one address. It implements raft.StreamLayer.
type Stream struct {
	network  *Network
	addr     string
	incoming chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

var _ raft.StreamLayer = (*Stream)(nil)

var errRefused = errors.New("connection refused")

// Dial implements raft.StreamLayer.
func (s *Stream) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	there, back := direction{s.addr, string(to)}, direction{string(to), s.addr}
	for {
		open, changed := s.network.flows(there)
		if open {
			open, changed = s.network.flows(back)
		}
		if open {
			break
		}
		select {
		case <-changed:
		case <-s.closed:
			return nil, net.ErrClosed
		case <-timer.C:
			return nil, fmt.Errorf("dial %s: %w", to, errTimeout)
		}
	}
	s.network.mu.Lock()
	peer := s.network.listeners[string(to)]
	s.network.mu.Unlock()
	if peer == nil {
		return nil, fmt.Errorf("dial %s: %w", to, errRefused)
	}
	forth, home := newPipe(s.network, there), newPipe(s.network, back)
	near := &conn{in: home, out: forth}
	far := &conn{in: forth, out: home}
	select {
	case peer.incoming <- far:
		return near, nil
	case <-peer.closed:
		return nil, fmt.Errorf("dial %s: %w", to, errRefused)
	case <-s.closed:
		return nil, net.ErrClosed
	case <-timer.C:
		return nil, fmt.Errorf("dial %s: %w", to, errTimeout)
	}
}

// Accept implements net.Listener.
func (s *Stream) Accept() (net.Conn, error) {
	select {
	case c := <-s.incoming:
		return c, nil
	case <-s.closed:
		return nil, io.EOF
	}
}

// Close implements net.Listener.
func (s *Stream) Close() error {
	s.once.Do(func() {
		s.network.mu.Lock()
		delete(s.network.listeners, s.addr)
		s.network.mu.Unlock()
		close(s.closed)
	})
	return nil
}

// Addr implements net.Listener.
func (s *Stream) Addr() net.Addr { return addr(s.addr) }

type addr string

func (addr) Network() string  { return "mem" }
func (a addr) String() string { return string(a) }
