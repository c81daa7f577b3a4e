package virtual

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Network joins hosts. Addresses are IP:port, as memberlist wants them.
type Network struct {
	mu    sync.Mutex
	rand  *rand.Rand
	hosts map[string]*Host // by IP
	links map[direction]*Weather
	// Pieces and Packets count what was sent.
	Pieces, Packets uint64
}

// direction is a link, one way, between two IPs.
type direction struct{ from, to string }

// NewNetwork returns a network without hosts; all links are perfect.
func NewNetwork(seed uint64) *Network {
	return &Network{rand: rand.New(rand.NewPCG(seed, 1)), hosts: map[string]*Host{}, links: map[direction]*Weather{}}
}

// Set makes the weather of what from sends to to.
func (n *Network) Set(from, to string, w Weather) {
	n.change(direction{from, to}, func(old *Weather) { *old = w })
}

// Cut holds back what from sends to to, or lets it pass again.
func (n *Network) Cut(from, to string, cut bool) {
	n.change(direction{from, to}, func(w *Weather) { w.Cut = cut })
}

func (n *Network) change(d direction, f func(*Weather)) {
	n.mu.Lock()
	f(n.weather(d))
	var waiting []*pipe
	for _, h := range []*Host{n.hosts[d.from], n.hosts[d.to]} {
		if h != nil {
			waiting = append(waiting, h.pipes(d)...)
		}
	}
	n.mu.Unlock()
	for _, p := range waiting {
		p.deliver()
	}
}

// weather of a link; the lock is held.
func (n *Network) weather(d direction) *Weather {
	w := n.links[d]
	if w == nil {
		w = &Weather{}
		n.links[d] = w
	}
	return w
}

// flows reports whether a direction is open.
func (n *Network) flows(d direction) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.weather(d).Cut
}

// Host puts a new machine, or a new process of one, at an address. What was there before must have been killed.
func (n *Network) Host(ip string) *Host {
	n.mu.Lock()
	if old := n.hosts[ip]; old != nil && !old.dead {
		n.mu.Unlock()
		panic("virtual: " + ip + " is taken")
	}
	old := n.hosts[ip]
	h := &Host{network: n, ip: ip, listeners: map[string]*listener{}, conns: map[*conn]struct{}{}, stopped: newGate()}
	n.hosts[ip] = h
	n.mu.Unlock()
	if old != nil {
		// Whoever still speaks to the one before learns now that it is gone.
		old.reset()
	}
	return h
}

// host does something to whoever is at an address.
func (n *Network) host(ip string, f func(*Host)) {
	n.mu.Lock()
	h := n.hosts[ip]
	n.mu.Unlock()
	if h != nil {
		f(h)
	}
}

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset by peer")
)

func hostOf(addr string) (string, error) {
	ip, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", addr, err)
	}
	return ip, nil
}

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
