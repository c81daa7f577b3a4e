// Package netns puts the members of a cluster into separate network namespaces, each with a cable to a switch, and cuts
// the links between them: real packets of real processes get lost, in one or both directions.
//
// Contract: New makes the namespaces, Close removes them. Start runs a program in one of them. Cut silently drops the
// packets from one member to another; Heal undoes all cuts. The package needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN)
// and ip(8); Available says what is missing. It does not change the network of the machine itself.
//
// How: each namespace has a fixed neighbour table, which names the cable of every other member. A cut is an entry that
// names a cable that does not exist: the switch delivers such a packet to all members, and all of them drop it.
package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// Available returns the reason why namespaces cannot be made here, or nil if they can.
func Available() error {
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("partitions need ip(8), of the package iproute2")
	}
	if os.Geteuid() != 0 {
		return errors.New("partitions need root: they are made between network namespaces")
	}
	n, err := New("probe")
	if err != nil {
		return fmt.Errorf("partitions need network namespaces, veth and a bridge: %w", err)
	}
	return n.Close()
}

// Net is a switch with members.
type Net struct {
	prefix string // the prefix of the namespaces' names
	names  []string

	mu   sync.Mutex
	cuts map[[2]string]bool
}

const (
	hub    = "hub"
	subnet = "10.213.7."
	// nobody is an address that no cable has.
	nobody = "02:4d:00:00:ff:ff"
)

var made atomic.Int64

// New makes a namespace for each name, and one for the switch, which is called hub.
func New(names ...string) (*Net, error) {
	n := &Net{prefix: fmt.Sprintf("%s-%d-", testrun.Name(), made.Add(1)), names: append([]string{hub}, names...), cuts: map[[2]string]bool{}}
	if err := n.make(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Net) make() error {
	for _, name := range n.names {
		if err := ip("netns", "add", n.ns(name)); err != nil {
			return err
		}
		if err := ip("-n", n.ns(name), "link", "set", "lo", "up"); err != nil {
			return err
		}
	}
	if err := n.batch(hub, "link add sw type bridge", "link set sw address "+n.mac(hub)+" up", "addr add "+n.Addr(hub)+"/24 dev sw"); err != nil {
		return err
	}
	for _, name := range n.names[1:] {
		port := "p" + strings.TrimPrefix(n.Addr(name), subnet)
		if err := ip("-n", n.ns(hub), "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", n.ns(name)); err != nil {
			return err
		}
		if err := n.batch(hub, "link set "+port+" master sw up"); err != nil {
			return err
		}
		if err := n.batch(name, "link set eth0 address "+n.mac(name)+" up", "addr add "+n.Addr(name)+"/24 dev eth0"); err != nil {
			return err
		}
	}
	for _, from := range n.names {
		if err := n.neighbours(from); err != nil {
			return err
		}
	}
	return nil
}

// neighbours writes the neighbour table of a member.
func (n *Net) neighbours(from string) error {
	dev := "eth0"
	if from == hub {
		dev = "sw"
	}
	var lines []string
	for _, to := range n.names {
		if to == from {
			continue
		}
		mac := n.mac(to)
		if n.cuts[[2]string{from, to}] {
			mac = nobody
		}
		lines = append(lines, fmt.Sprintf("neigh replace %s lladdr %s dev %s nud permanent", n.Addr(to), mac, dev))
	}
	return n.batch(from, lines...)
}

// Cut drops the packets from one member to another. The other direction is a separate cut.
func (n *Net) Cut(from, to string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[[2]string{from, to}] = true
	return n.neighbours(from)
}

// Part drops all packets between the members of a and the members of b.
func (n *Net) Part(a, b []string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range a {
		for _, y := range b {
			if x != y {
				n.cuts[[2]string{x, y}], n.cuts[[2]string{y, x}] = true, true
			}
		}
	}
	for _, x := range append(append([]string{}, a...), b...) {
		if err := n.neighbours(x); err != nil {
			return err
		}
	}
	return nil
}

// Others returns all members except the named ones. The hub is not among them.
func (n *Net) Others(but ...string) []string {
	var all []string
next:
	for _, name := range n.names[1:] {
		for _, b := range but {
			if b == name {
				continue next
			}
		}
		all = append(all, name)
	}
	return all
}

// Heal undoes all cuts.
func (n *Net) Heal() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	cut := map[string]bool{}
	for way := range n.cuts {
		cut[way[0]] = true
	}
	clear(n.cuts)
	for from := range cut {
		if err := n.neighbours(from); err != nil {
			return err
		}
	}
	return nil
}

// Addr returns the address of a member.
func (n *Net) Addr(name string) string { return fmt.Sprintf("%s%d", subnet, n.number(name)) }

func (n *Net) mac(name string) string { return fmt.Sprintf("02:4d:00:00:00:%02x", n.number(name)) }

func (n *Net) number(name string) int {
	for i, known := range n.names {
		if known == name {
			return i + 1
		}
	}
	return 0
}

func (n *Net) ns(name string) string { return n.prefix + name }

// Start starts a program in the namespace of a member.
func (n *Net) Start(name string, cmd *exec.Cmd) error {
	return n.inside(name, cmd.Start)
}

// Dial opens a connection from the switch to a member.
func (n *Net) Dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = n.inside(hub, func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, addr) // addr is an IP address, so the dialer starts no goroutine
		return err
	})
	return conn, err
}

// inside runs do on a thread in the namespace. The thread ends afterwards, because no other goroutine may run on it.
func (n *Net) inside(name string, do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		f, err := os.Open(filepath.Join("/run/netns", n.ns(name)))
		if err == nil {
			defer f.Close()
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			result <- fmt.Errorf("entering the namespace of %s: %w", name, err)
			return
		}
		result <- do()
	}()
	return <-result
}

// Close removes the namespaces. Processes that still run in them keep them alive, but invisible.
func (n *Net) Close() error {
	var errs []error
	for _, name := range n.names {
		if _, err := os.Stat(filepath.Join("/run/netns", n.ns(name))); err == nil {
			errs = append(errs, ip("netns", "del", n.ns(name)))
		}
	}
	return errors.Join(errs...)
}

func (n *Net) batch(name string, lines ...string) error {
	cmd := exec.Command("ip", "-n", n.ns(name), "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip (%s): %w: %s", strings.Join(lines, "; "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
