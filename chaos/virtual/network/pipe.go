package network

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// conn is one end of a connection: it reads one pipe and writes the other.
type conn struct {
	host          *Host
	in, out       *pipe
	local, remote address
}

func (c *conn) Read(b []byte) (int, error) { return c.in.read(b) }

// Write fails only if this end knows that the connection is gone. If the other end is gone, a write is answered with a
// reset, which takes the usual time.
func (c *conn) Write(b []byte) (int, error) {
	taken, err := c.out.write(c.host, b)
	if err == nil && !taken {
		c.in.bounce()
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close ends both directions: the other end reads the bytes that were sent, then EOF.
func (c *conn) Close() error {
	c.in.fail(net.ErrClosed)
	c.out.end()
	c.host.network.mu.Lock()
	delete(c.host.conns, c)
	c.host.network.mu.Unlock()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error     { c.in.setDeadline(t); return nil }
func (c *conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }

// SetWriteDeadline does nothing: writes never wait.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// pipe carries bytes in one direction, in order.
type pipe struct {
	network   *Network
	direction Link
	reader    *Host

	mu       sync.Mutex
	ready    sync.Cond
	flying   []segment // by time of arrival
	buffer   []byte    // arrived
	end0     error     // what follows the buffer for the reader: EOF or reset
	closed   error     // the reader's end is closed
	over     bool      // the writer's end is closed
	bounced  bool      // a write the other way was answered with a reset
	gone     bool      // the writer's process has ended: it writes no more
	deadline time.Time
	alarm    *time.Timer
	from     *Host // the writer's host, which may be stopped
}

// segment holds bytes in flight, or the end of the stream.
type segment struct {
	data    []byte
	end     error
	arrives time.Time
}

func newPipe(n *Network, d Link, reader *Host) *pipe {
	p := &pipe{network: n, direction: d, reader: reader}
	p.ready.L = &p.mu
	return p
}

func (p *pipe) write(from *Host, b []byte) (taken bool, err error) {
	p.network.mu.Lock()
	transit := p.network.weather(p.direction).transit(p.network.rand)
	p.network.Pieces++
	p.network.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over || p.gone:
		return false, net.ErrClosed
	case p.closed != nil:
		return false, nil
	}
	p.from = from
	p.send(segment{data: append([]byte(nil), b...)}, transit)
	return true, nil
}

// bounce answers a write to an end that does not exist any more with a reset. A machine without power sends none.
func (p *pipe) bounce() {
	p.network.mu.Lock()
	far := p.network.hosts[p.direction.From]
	silent := far == nil || far.dark
	p.network.mu.Unlock()
	p.mu.Lock()
	again := p.bounced
	p.bounced = p.bounced || !silent
	p.mu.Unlock()
	if !again && !silent {
		p.finish(errReset)
	}
}

// send adds a segment behind the others. The caller holds the lock.
func (p *pipe) send(s segment, transit time.Duration) {
	now := time.Now()
	s.arrives = now.Add(transit)
	if n := len(p.flying); n > 0 && p.flying[n-1].arrives.After(s.arrives) {
		s.arrives = p.flying[n-1].arrives
	}
	p.flying = append(p.flying, s)
	if wait := s.arrives.Sub(now); wait > 0 {
		time.AfterFunc(wait, p.deliver)
		return
	}
	p.land(now)
}

// deliver delivers the segments that are due.
func (p *pipe) deliver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.land(time.Now())
}

// land is like deliver. The caller holds the lock.
func (p *pipe) land(now time.Time) {
	if len(p.flying) == 0 || !p.network.flows(p.direction) || p.reader.stopped.isShut() || (p.from != nil && p.from.stopped.isShut()) {
		return
	}
	n := 0
	for n < len(p.flying) && !p.flying[n].arrives.After(now) {
		s := p.flying[n]
		n++
		if p.closed != nil || p.end0 != nil {
			continue
		}
		p.buffer = append(p.buffer, s.data...)
		if s.end != nil {
			p.end0 = s.end
			if s.end == errReset {
				p.buffer = nil
			}
		}
	}
	if n > 0 {
		p.flying = append(p.flying[:0], p.flying[n:]...)
		p.ready.Broadcast()
	}
}

// end ends the stream when the writer closes its end.
func (p *pipe) end() { p.finish(io.EOF) }

// reset resets the connection for the reader.
func (p *pipe) reset() { p.finish(errReset) }

func (p *pipe) finish(how error) {
	p.network.mu.Lock()
	transit := p.network.weather(p.direction).transit(p.network.rand)
	p.network.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over && how == io.EOF {
		return
	}
	p.over = true
	p.send(segment{end: how}, transit)
}

// abandon ends the writing without an error; bytes in flight still arrive.
func (p *pipe) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone, p.from = true, nil
}

// fail makes reads fail when the reader's end is closed.
func (p *pipe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed == nil {
		p.closed = err
		p.buffer, p.flying = nil, nil
	}
	if p.alarm != nil {
		p.alarm.Stop()
	}
	p.ready.Broadcast()
}

func (p *pipe) setDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alarm != nil {
		p.alarm.Stop()
		p.alarm = nil
	}
	p.deadline = t
	if !t.IsZero() && p.closed == nil {
		if left := time.Until(t); left > 0 {
			p.alarm = time.AfterFunc(left, func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.ready.Broadcast()
			})
			return
		}
	}
	p.ready.Broadcast()
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed != nil:
			return 0, p.closed
		case p.reader.stopped.isShut():
			// Bytes that have arrived cannot be read either.
			p.mu.Unlock()
			wait := p.reader.stopped.wait()
			if wait != nil {
				<-wait
			}
			p.mu.Lock()
			continue
		case len(p.buffer) > 0:
			n := copy(b, p.buffer)
			if p.buffer = p.buffer[n:]; len(p.buffer) == 0 {
				p.buffer = nil
			}
			return n, nil
		case p.end0 != nil:
			return 0, p.end0
		case !p.deadline.IsZero() && !time.Now().Before(p.deadline):
			return 0, os.ErrDeadlineExceeded
		}
		p.ready.Wait()
	}
}
