package network

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Network connects hosts. Addresses are IP:port, as memberlist requires.
type Network struct {
	mu    sync.Mutex
	rand  *rand.Rand
	hosts map[string]*Host // by IP
	links map[Link]*Weather
	// Pieces and Packets count the pieces of streams and the packets that were sent.
	Pieces, Packets uint64
}

// Link is the link from one IP to another, in this direction.
type Link struct{ From, To string }

// New returns a network without hosts; all links are perfect.
func New(seed uint64) *Network {
	return &Network{rand: rand.New(rand.NewPCG(seed, 1)), hosts: map[string]*Host{}, links: map[Link]*Weather{}}
}

// Set sets the weather of the link from one address to another.
func (n *Network) Set(from, to string, w Weather) {
	n.change(Link{from, to}, func(old *Weather) { *old = w })
}

// Cut cuts the link from one address to another, or restores it.
func (n *Network) Cut(from, to string, cut bool) {
	n.change(Link{from, to}, func(w *Weather) { w.Cut = cut })
}

func (n *Network) change(d Link, f func(*Weather)) {
	n.mu.Lock()
	f(n.weather(d))
	var waiting []*pipe
	for _, h := range []*Host{n.hosts[d.From], n.hosts[d.To]} {
		if h != nil {
			waiting = append(waiting, h.pipes(d)...)
		}
	}
	n.mu.Unlock()
	for _, p := range waiting {
		p.deliver()
	}
}

// weather returns the weather of a link. The caller holds the lock.
func (n *Network) weather(d Link) *Weather {
	w := n.links[d]
	if w == nil {
		w = &Weather{}
		n.links[d] = w
	}
	return w
}

// flows reports whether a link is not cut.
func (n *Network) flows(d Link) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.weather(d).Cut
}

// Host makes a host at an address, for a machine or a process that starts. An earlier host at the address must have
// been killed.
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
		// Connections to the earlier host are reset at this point.
		old.reset()
	}
	return h
}

// At returns the host at an address; nil: none.
func (n *Network) At(ip string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[ip]
}

// SetAll sets the weather of all links between some addresses, except cuts.
func (n *Network) SetAll(ips []string, w Weather) {
	for _, x := range ips {
		for _, y := range ips {
			if x != y {
				n.change(Link{x, y}, func(old *Weather) {
					cut := old.Cut
					*old = w
					old.Cut = cut
				})
			}
		}
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
