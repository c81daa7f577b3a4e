package network

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// carrier is a memberlist.Transport on a host.
type carrier struct {
	host     *Host
	addr     string
	listener net.Listener
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	closed   chan struct{}
	once     sync.Once
	accept   sync.WaitGroup
}

// Gossip listens for gossip.
func (h *Host) Gossip(port int) (memberlist.Transport, error) {
	l, err := h.Listen(h.Addr(port))
	if err != nil {
		return nil, err
	}
	c := &carrier{
		host: h, addr: h.Addr(port), listener: l, closed: make(chan struct{}),
		packets: make(chan *memberlist.Packet, 1024), streams: make(chan net.Conn, 16),
	}
	c.accept.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case c.streams <- conn:
			case <-c.closed:
				_ = conn.Close()
				return
			}
		}
	})
	h.network.mu.Lock()
	h.packets = c
	h.network.mu.Unlock()
	return c, nil
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (c *carrier) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	addr, err := net.ResolveTCPAddr("tcp", c.addr)
	if err != nil {
		return nil, 0, err
	}
	return addr.IP, addr.Port, nil
}

// WriteTo implements memberlist.Transport. It sends a packet, which may be lost, late or doubled.
func (c *carrier) WriteTo(b []byte, to string) (time.Time, error) {
	now := time.Now()
	ip, err := hostOf(to)
	if err != nil {
		return now, err
	}
	n := c.host.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.host.dead {
		return now, net.ErrClosed
	}
	if c.host.stopped.isShut() {
		return now, nil
	}
	n.Packets++
	for _, transit := range n.weather(Link{c.host.ip, ip}).copies(n.rand) {
		packet := &memberlist.Packet{Buf: append([]byte(nil), b...), From: address(c.addr)}
		arrive := func() { n.arrive(Link{c.host.ip, ip}, to, packet) }
		if transit == 0 {
			go arrive()
		} else {
			time.AfterFunc(transit, arrive)
		}
	}
	return now, nil
}

// arrive delivers a packet, if the address has a listener.
func (n *Network) arrive(d Link, to string, p *memberlist.Packet) {
	n.mu.Lock()
	h := n.hosts[d.To]
	if h == nil || h.dead || h.packets == nil || h.packets.addr != to || n.weather(d).Cut {
		n.mu.Unlock()
		return
	}
	c := h.packets
	n.mu.Unlock()
	if h.stopped.isShut() {
		return // a stopped host loses packets: its socket's buffer is not modelled
	}
	p.Timestamp = time.Now()
	select {
	case c.packets <- p:
	default: // lost, as with UDP when the buffer is full
	}
}

// PacketCh implements memberlist.Transport.
func (c *carrier) PacketCh() <-chan *memberlist.Packet { return c.packets }

// DialTimeout implements memberlist.Transport.
func (c *carrier) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := c.host.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	return conn, nil
}

// StreamCh implements memberlist.Transport.
func (c *carrier) StreamCh() <-chan net.Conn { return c.streams }

// kill closes the carrier when its host dies.
func (c *carrier) kill() { c.once.Do(func() { close(c.closed) }) }

// Shutdown implements memberlist.Transport.
func (c *carrier) Shutdown() error {
	c.kill()
	err := c.listener.Close()
	c.accept.Wait()
	for {
		select {
		case conn := <-c.streams:
			_ = conn.Close()
		default:
			return err
		}
	}
}
