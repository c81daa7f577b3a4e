// Package porttest gives tests addresses to listen on that no other test gets meanwhile.
package porttest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/mindcoordinator/mind/devcluster/ports"
)

// Claim returns an address for a program that must be told where to listen, its UDP port included. The address is
// claimed until the test ends, whether the program runs or not.
func Claim(t testing.TB) string {
	t.Helper()
	var set ports.Set
	t.Cleanup(set.Close)
	addr, err := set.Find("127.0.0.1", true)
	if err != nil {
		t.Fatal(err)
	}
	set.Release()
	return addr
}

// Sockets is the TCP network of a coordinator in this process. Its listeners are opened before their addresses are
// used, on ports that the kernel chose, and each is handed over once: a coordinator that was stopped cannot listen
// there again.
type Sockets struct {
	opened sync.Map // listeners by address
}

// Open opens a listener to be handed over, and returns its address.
func (s *Sockets) Open(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s.opened.Store(l.Addr().String(), l)
	return l.Addr().String()
}

// Dial connects to any address.
func (s *Sockets) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// Listen hands over the listener that was opened at an address.
func (s *Sockets) Listen(addr string) (net.Listener, error) {
	l, ok := s.opened.LoadAndDelete(addr)
	if !ok {
		return nil, fmt.Errorf("listen %s: no listener was opened there, or it was handed over already", addr)
	}
	return l.(net.Listener), nil
}
