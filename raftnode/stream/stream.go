// Package stream carries raft over TCP, with mutual TLS.
//
// Guarantees: with TLS configured, both ends of a connection have shown a certificate of a coordinator. A caller that sends
// nothing holds up nobody, and is cut off after a while.
package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// coordinatorRole is the organisational unit in a replica's certificate.
const coordinatorRole = "coordinator"

// Stream implements raft.StreamLayer.
type Stream struct {
	listener      net.Listener
	advertise     address
	server        *tls.Config
	client        func() *tls.Config // nil: plain
	handshakeTime time.Duration
	network       Network
	dialing       context.Context
	stopDialing   context.CancelFunc
}

// address is a host:port, where the host may be a name.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// Network is where a replica listens and how it reaches the others. Addresses have the form host:port.
type Network interface {
	Listen(addr string) (net.Listener, error)
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// TCP is the real network.
type TCP struct{}

// Listen implements Network.
func (TCP) Listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

// Dial implements Network.
func (TCP) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// Config says where to listen, and with which certificates.
type Config struct {
	// Network (nil: TCP) is what BindAddr and the addresses of the others belong to.
	Network Network
	// BindAddr is host:port to listen on. AdvertiseAddr is where the others reach it; empty: the address that was bound.
	BindAddr, AdvertiseAddr string
	// Server and Client secure the connections; both or neither. Client is asked before each handshake.
	Server *tls.Config
	Client func() *tls.Config
	// HandshakeTime bounds a handshake that another replica began. That one gives up by itself, so this only ends
	// connections that send nothing.
	HandshakeTime time.Duration
}

// Listen begins to listen.
func Listen(cfg Config) (*Stream, error) {
	if cfg.Network == nil {
		cfg.Network = TCP{}
	}
	listener, err := cfg.Network.Listen(cfg.BindAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for raft: %w", err)
	}
	s := &Stream{
		listener:      listener,
		advertise:     address(cfg.AdvertiseAddr),
		server:        requireCoordinator(cfg.Server),
		client:        cfg.Client,
		handshakeTime: cfg.HandshakeTime,
		network:       cfg.Network,
	}
	s.dialing, s.stopDialing = context.WithCancel(context.Background())
	if s.advertise == "" {
		tcp, _ := listener.Addr().(*net.TCPAddr)
		if tcp == nil || tcp.IP.IsUnspecified() {
			_ = listener.Close()
			return nil, fmt.Errorf("listen for raft: %s cannot be reached by others, AdvertiseAddr is needed", listener.Addr())
		}
		s.advertise = address(listener.Addr().String())
	}
	return s, nil
}

// requireCoordinator refuses peers whose certificate has another role: an agent
// of the same cluster is signed by the same authority, and must not be able to
// speak raft.
func requireCoordinator(config *tls.Config) *tls.Config {
	if config == nil {
		return nil
	}
	strict := config.Clone()
	before := config.VerifyConnection
	strict.VerifyConnection = func(state tls.ConnectionState) error {
		if before != nil {
			if err := before(state); err != nil {
				return err
			}
		}
		if len(state.PeerCertificates) == 0 {
			return errors.New("raft peer shows no certificate")
		}
		subject := state.PeerCertificates[0].Subject
		if !slices.Contains(subject.OrganizationalUnit, coordinatorRole) {
			return fmt.Errorf("raft peer %s is no coordinator", subject)
		}
		return nil
	}
	// What a server makes for one handshake stands for all that is around it.
	if forClient := config.GetConfigForClient; forClient != nil {
		strict.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			made, err := forClient(hello)
			if err != nil || made == nil {
				return made, err
			}
			return requireCoordinator(made), nil
		}
	}
	return strict
}

// Accept implements net.Listener. The handshake is left to the first read,
// which raft does on the connection's own goroutine, so that a silent caller
// keeps nobody waiting.
func (s *Stream) Accept() (net.Conn, error) {
	c, err := s.listener.Accept()
	if err != nil {
		return nil, err
	}
	noDelay(c)
	if s.server == nil {
		return c, nil
	}
	return &accepted{Conn: tls.Server(c, s.server), within: s.handshakeTime}, nil
}

// Dial implements raft.StreamLayer.
func (s *Stream) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.dialing, timeout)
	defer cancel()
	c, err := s.network.Dial(ctx, string(to))
	if err != nil {
		return nil, err
	}
	noDelay(c)
	if s.client == nil {
		return c, nil
	}
	config := requireCoordinator(s.client())
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(string(to))
		if err != nil {
			_ = c.Close()
			return nil, err
		}
		config.ServerName = host
	}
	secure := tls.Client(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secure, nil
}

// Close implements net.Listener.
func (s *Stream) Close() error {
	s.stopDialing()
	return s.listener.Close()
}

// Addr is the advertised address: raft tells it to the others as its own.
func (s *Stream) Addr() net.Addr { return s.advertise }

// noDelay is Go's default; said here because commit latency depends on it.
func noDelay(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
	}
}

// accepted is an incoming connection that does its handshake at the first read,
// within bounded time.
type accepted struct {
	*tls.Conn
	within time.Duration
	once   sync.Once
	err    error
}

func (c *accepted) Read(b []byte) (int, error) {
	c.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.within)
		defer cancel()
		c.err = c.HandshakeContext(ctx)
	})
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(b)
}
