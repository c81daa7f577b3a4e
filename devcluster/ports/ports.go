// Package ports finds ports of this machine for components that start later, so that no two clusters use the same port.
//
// A component that is restarted, also after a crash, must find its port free. A port that was only free once may be in
// use by then: the kernel uses ports from 32768 up for outgoing connections, and another cluster may look for ports at
// the same time. So ports are chosen below the kernel's, and each is claimed as long as its cluster lives, whether its
// component runs or not. Claims end with the process that made them. Only programs that use this package respect them.
package ports

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"
)

// Lowest and Highest are the range in which ports are chosen. It lies below the ports that coordinators give to the
// trainings of a cluster, so that no training finds a component at its rendezvous.
const (
	Lowest  = 10000
	Highest = 14999
)

// Set holds the ports of one cluster. The zero value is empty.
type Set struct {
	claims  []io.Closer
	sockets []io.Closer
}

// Take takes an address, with its UDP port if wanted. It returns an error if the address is not free. No program can
// listen there until Release.
func (s *Set) Take(addr string, udp bool) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	// The claim is an abstract socket: it is in the same network namespace as the port, leaves no file, and ends with
	// its process.
	claim, err := net.Listen("unix", "@mind-port-"+port)
	if err != nil {
		return fmt.Errorf("port %s belongs to another cluster: %w", port, err)
	}
	taken := []io.Closer{}
	tcp, err := net.Listen("tcp", addr)
	if err == nil {
		taken = append(taken, tcp)
		if udp {
			var packets net.PacketConn
			if packets, err = net.ListenPacket("udp", addr); err == nil {
				taken = append(taken, packets)
			}
		}
	}
	if err != nil {
		closeAll(append(taken, claim))
		return err
	}
	s.claims, s.sockets = append(s.claims, claim), append(s.sockets, taken...)
	return nil
}

// Await takes an address that may become free soon. It returns the last error if the address is not free in time.
func (s *Set) Await(addr string, udp bool, limit time.Duration) error {
	end := time.Now().Add(limit)
	for {
		err := s.Take(addr, udp)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Keep takes an address if it is free, and otherwise finds another one on the host.
func (s *Set) Keep(addr, host string, udp bool) (string, error) {
	if addr != "" && s.Take(addr, udp) == nil {
		return addr, nil
	}
	return s.Find(host, udp)
}

// Find takes any free address on the host.
func (s *Set) Find(host string, udp bool) (string, error) {
	for range 200 {
		addr := net.JoinHostPort(host, strconv.Itoa(Lowest+rand.IntN(Highest-Lowest+1)))
		if s.Take(addr, udp) == nil {
			return addr, nil
		}
	}
	return "", fmt.Errorf("found no free port on %s between %d and %d", host, Lowest, Highest)
}

// Release lets components listen. The ports stay claimed.
func (s *Set) Release() {
	closeAll(s.sockets)
	s.sockets = nil
}

// Close releases the claims.
func (s *Set) Close() {
	s.Release()
	closeAll(s.claims)
	s.claims = nil
}

func closeAll(all []io.Closer) {
	for _, c := range all {
		_ = c.Close()
	}
}
