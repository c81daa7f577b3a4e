// Package stream carries raft over TCP, with mutual TLS.
//
// Guarantees: with TLS configured, both ends of a connection have presented the certificate of a coordinator. A caller
// that sends nothing does not delay others, and its connection is closed after a while.
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

// coordinatorRole is the organisational unit in the certificate of a replica.
const coordinatorRole = "coordinator"

// Stream implements raft.StreamLayer.
type Stream struct {
	listener      net.Listener
	advertise     address
	server        *tls.Config
	client        func() *tls.Config // nil: without TLS
	handshakeTime time.Duration
	network       Network
	dialing       context.Context
	stopDialing   context.CancelFunc
}

// address is a host:port, where the host may be a name.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// Network is the network on which a replica listens and dials. Addresses have the form host:port.
type Network interface {
	Listen(addr string) (net.Listener, error)
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// TCP is the network of the operating system.
type TCP struct{}

// Listen implements Network.
func (TCP) Listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

// Dial implements Network.
func (TCP) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// Config has the addresses and the certificates of a Stream.
type Config struct {
	// Network is the network of BindAddr and of the addresses of the others; nil: TCP.
	Network Network
	// BindAddr is the host:port to listen on. AdvertiseAddr is the address at which the others reach it; empty: the
	// bound address.
	BindAddr, AdvertiseAddr string
	// Server and Client secure the connections; give both or neither. Client is called before each handshake.
	Server *tls.Config
	Client func() *tls.Config
	// HandshakeTime limits a handshake that another replica began. A replica gives up earlier itself, so this only
	// closes connections that send nothing.
	HandshakeTime time.Duration
}

// Listen starts listening.
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

// requireCoordinator returns a configuration that refuses peers whose certificate has another role: the same authority
// also signs agents of the cluster, which must not send messages of raft.
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
	// The configuration that a server makes for one handshake replaces this one.
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

// Accept implements net.Listener. The handshake is made by the first read, which raft calls on a goroutine of the
// connection, so that a caller that sends nothing does not delay others.
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

// Addr returns the advertised address, which raft sends to the others as its own.
func (s *Stream) Addr() net.Addr { return s.advertise }

// noDelay sets TCP_NODELAY. That is Go's default; it is set explicitly because commit latency depends on it.
func noDelay(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
	}
}

// accepted is an incoming connection whose first read makes the handshake, in limited time.
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
