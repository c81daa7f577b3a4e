package network

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
)

// Host is the network of one component, from its start to its end. It implements coordinator.Network and agent.Network.
type Host struct {
	network *Network
	ip      string
	// stopped blocks the reads of a stopped component, and holds back its writes.
	stopped *gate

	// The fields below are guarded by the network's lock.
	dead      bool
	dark      bool // without power: its peers get no resets
	port      int
	listeners map[string]*listener
	conns     map[*conn]struct{}
	packets   *carrier
}

// IP returns the host's address.
func (h *Host) IP() string { return h.ip }

// Addr returns the address of a port of the host.
func (h *Host) Addr(port int) string { return net.JoinHostPort(h.ip, strconv.Itoa(port)) }

// Listen implements coordinator.Network.
func (h *Host) Listen(addr string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", addr, err)
	}
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	if port == "0" {
		h.port++
		port = strconv.Itoa(40_000 + h.port)
	}
	l := &listener{host: h, addr: net.JoinHostPort(h.ip, port), incoming: make(chan net.Conn, 64), closed: make(chan struct{})}
	switch {
	case h.dead:
		return nil, fmt.Errorf("listen %s: %w", addr, net.ErrClosed)
	case h.listeners[l.addr] != nil:
		return nil, fmt.Errorf("listen %s: address in use", addr)
	}
	h.listeners[l.addr] = l
	return l, nil
}

// Dial implements coordinator.Network. It needs both directions, and the answer of a listener.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	ip, err := hostOf(addr)
	if err != nil {
		return nil, err
	}
	n := h.network
	there, back := Link{h.ip, ip}, Link{ip, h.ip}
	for {
		if err := h.stopped.pass(ctx); err != nil {
			return nil, fmt.Errorf("dial %s: %w", addr, err)
		}
		n.mu.Lock()
		if h.dead {
			n.mu.Unlock()
			return nil, fmt.Errorf("dial %s: %w", addr, net.ErrClosed)
		}
		transit := time.Second // SYN, sent again each second
		if w, b := n.weather(there), n.weather(back); !w.Cut && !b.Cut {
			transit = w.transit(n.rand) + b.transit(n.rand)
		}
		n.mu.Unlock()
		if wait.For(ctx, transit); ctx.Err() != nil {
			return nil, fmt.Errorf("dial %s: %w", addr, ctx.Err())
		}
		n.mu.Lock()
		peer := n.hosts[ip]
		if n.weather(there).Cut || n.weather(back).Cut || peer == nil || peer.dark {
			n.mu.Unlock()
			if wait.For(ctx, time.Second); ctx.Err() != nil {
				return nil, fmt.Errorf("dial %s: %w", addr, ctx.Err())
			}
			continue
		}
		near, err := h.connect(peer, addr, there, back)
		n.mu.Unlock()
		return near, err
	}
}

// connect makes both ends of a connection. The caller holds the network's lock.
func (h *Host) connect(peer *Host, addr string, there, back Link) (net.Conn, error) {
	l := peer.listeners[addr]
	if h.dead || peer.dead || l == nil {
		return nil, fmt.Errorf("dial %s: %w", addr, errRefused)
	}
	h.port++
	from := h.Addr(50_000 + h.port%10_000)
	forth, home := newPipe(h.network, there, peer), newPipe(h.network, back, h)
	near := &conn{host: h, in: home, out: forth, local: address(from), remote: address(addr)}
	far := &conn{host: peer, in: forth, out: home, local: address(addr), remote: address(from)}
	select {
	case l.incoming <- far:
	default:
		return nil, fmt.Errorf("dial %s: %w", addr, errRefused)
	}
	h.conns[near], peer.conns[far] = struct{}{}, struct{}{}
	return near, nil
}

// Kill removes the host from the network for good: the process dies. Its peers see their connections reset when the
// links carry that to them. If the machine loses power, they do not, until there is a host at this address again.
func (h *Host) Kill(power bool) {
	n := h.network
	n.mu.Lock()
	h.dead, h.dark = true, power
	listeners := h.listeners
	h.listeners = map[string]*listener{}
	var conns []*conn
	for c := range h.conns {
		conns = append(conns, c)
	}
	carrier := h.packets
	n.mu.Unlock()
	for _, l := range listeners {
		l.shut()
	}
	for _, c := range conns {
		c.in.fail(net.ErrClosed)
		c.out.abandon()
	}
	if carrier != nil {
		carrier.kill()
	}
	h.stopped.open()
	if !power {
		h.reset()
	}
}

// reset resets the connections of a dead host's peers.
func (h *Host) reset() {
	h.network.mu.Lock()
	var conns []*conn
	for c := range h.conns {
		conns = append(conns, c)
	}
	h.conns = map[*conn]struct{}{}
	h.network.mu.Unlock()
	for _, c := range conns {
		c.out.reset()
	}
}

// Stop suspends the component until Continue: it receives and sends nothing.
func (h *Host) Stop() { h.stopped.shut() }

// Pass waits while the component is stopped.
func (h *Host) Pass(ctx context.Context) error { return h.stopped.pass(ctx) }

// Held returns a channel that is closed when the component is continued; nil: it is not stopped.
func (h *Host) Held() <-chan struct{} { return h.stopped.wait() }

// Continue resumes a stopped component.
func (h *Host) Continue() {
	h.stopped.open()
	n := h.network
	n.mu.Lock()
	var waiting []*pipe
	for c := range h.conns {
		waiting = append(waiting, c.in, c.out)
	}
	n.mu.Unlock()
	for _, p := range waiting {
		p.deliver()
	}
}

// pipes returns the pipes of one direction. The caller holds the network's lock.
func (h *Host) pipes(d Link) []*pipe {
	var out []*pipe
	for c := range h.conns {
		for _, p := range []*pipe{c.in, c.out} {
			if p.direction == d {
				out = append(out, p)
			}
		}
	}
	return out
}

// listener accepts connections at one address.
type listener struct {
	host     *Host
	addr     string
	incoming chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		if err := l.host.stopped.pass(context.Background()); err != nil {
			return nil, err
		}
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) shut() { l.once.Do(func() { close(l.closed) }) }

// Close implements net.Listener.
func (l *listener) Close() error {
	l.host.network.mu.Lock()
	if l.host.listeners[l.addr] == l {
		delete(l.host.listeners, l.addr)
	}
	l.host.network.mu.Unlock()
	l.shut()
	for {
		select {
		case c := <-l.incoming:
			_ = c.Close()
		default:
			return nil
		}
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return address(l.addr) }

// gate blocks goroutines that pass it while it is shut.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil: the gate is open; the channel is closed when it opens
}

func newGate() *gate { return &gate{} }

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

// isShut reports whether the gate is shut.
func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed != nil
}

// wait returns a channel that is closed when the gate opens; nil: it is open.
func (g *gate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// pass waits until the gate is open.
func (g *gate) pass(ctx context.Context) error {
	for {
		wait := g.wait()
		if wait == nil {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
