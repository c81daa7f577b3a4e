package leader

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
)

// Network dials coordinators and other agents. It must work with addresses of the form host:port.
type Network interface {
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// conns holds the connections to coordinators during the search for a session.
//
// A connection costs both ends a TLS handshake. While there is no leader, every agent asks every coordinator
// repeatedly. That load must not keep the coordinators from electing a leader, so a connection over which a coordinator
// has answered is kept until there is a session.
type conns struct {
	network Network
	creds   credentials.TransportCredentials
	open    map[string]*grpc.ClientConn
}

// to returns the connection to a coordinator, and makes it if there is none.
func (c *conns) to(addr string, connectTime time.Duration) (*grpc.ClientConn, error) {
	if conn, ok := c.open[addr]; ok {
		return conn, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(c.creds),
		grpc.WithContextDialer(c.network.Dial),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTime}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		return nil, err
	}
	if c.open == nil {
		c.open = make(map[string]*grpc.ClientConn)
	}
	c.open[addr] = conn
	return conn, nil
}

// drop closes the connection to a coordinator that has not answered.
func (c *conns) drop(addr string) {
	if conn, ok := c.open[addr]; ok {
		_ = conn.Close()
		delete(c.open, addr)
	}
}

// keep drops all connections but one.
func (c *conns) keep(addr string) {
	for other := range c.open {
		if other != addr {
			c.drop(other)
		}
	}
}
