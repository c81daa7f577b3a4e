package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

var errTimeout = os.ErrDeadlineExceeded

// conn is one end of a connection: it reads from one pipe and writes to the other.
type conn struct {
	in, out *pipe
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b) }

// Close closes both directions. The other end can still read what was sent, and then gets EOF.
func (c *conn) Close() error {
	c.in.close(true)
	c.out.close(false)
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return addr(c.in.direction.to) }
func (c *conn) RemoteAddr() net.Addr { return addr(c.in.direction.from) }

func (c *conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(t)
	return nil // writes never wait
}
func (c *conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }
func (c *conn) SetWriteDeadline(time.Time) error  { return nil }

// pipe carries bytes in one direction.
type pipe struct {
	network   *Network
	direction direction

	mu       sync.Mutex
	segments []segment
	writer   bool // closed by its writer: EOF after the last byte
	reader   bool // closed by its reader
	deadline time.Time
	changed  chan struct{}
}

type segment struct {
	data    []byte
	arrives time.Time
}

func newPipe(n *Network, d direction) *pipe {
	return &pipe{network: n, direction: d, changed: make(chan struct{})}
}

func (p *pipe) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pipe) write(b []byte) (int, error) {
	p.network.mu.Lock()
	arrives := time.Now().Add(p.network.delay())
	p.network.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writer {
		return 0, net.ErrClosed
	}
	if p.reader {
		return 0, io.ErrClosedPipe
	}
	p.segments = append(p.segments, segment{append([]byte(nil), b...), arrives})
	p.wake()
	return len(b), nil
}

func (p *pipe) close(reading bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reading {
		p.reader = true
		p.segments = nil
	} else {
		p.writer = true
	}
	p.wake()
}

func (p *pipe) setDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	p.wake()
}

func (p *pipe) read(b []byte) (int, error) {
	for {
		open, cutChanged := p.network.flows(p.direction)
		n, wait, changed, err := p.poll(b, open)
		if n > 0 || err != nil {
			return n, err
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-cutChanged:
		case <-changed:
		case <-timer:
		}
	}
}

// poll reads available bytes. If there are none, it returns the longest time to wait (0: for ever), and a channel whose
// closing also ends the wait.
func (p *pipe) poll(b []byte, open bool) (n int, wait time.Duration, changed <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.reader {
		return 0, 0, nil, net.ErrClosed
	}
	if open {
		if len(p.segments) > 0 {
			first := &p.segments[0]
			if wait = first.arrives.Sub(now); wait <= 0 {
				n = copy(b, first.data)
				if first.data = first.data[n:]; len(first.data) == 0 {
					p.segments = p.segments[1:]
				}
				return n, 0, nil, nil
			}
		} else if p.writer {
			return 0, 0, nil, io.EOF
		}
	}
	if !p.deadline.IsZero() {
		left := p.deadline.Sub(now)
		if left <= 0 {
			return 0, 0, nil, errTimeout
		}
		if wait <= 0 || left < wait {
			wait = left
		}
	}
	return 0, wait, p.changed, nil
}
