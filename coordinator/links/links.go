// Package links keeps gRPC connections to other components open, one per address.
//
// A connection is opened on first use, kept alive, and reconnects by itself. Close closes all connections; after that
// none is opened.
package links

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/mindcoordinator/mind/api/client"
)

// Dial opens a connection to an address of the form host:port.
type Dial func(ctx context.Context, addr string) (net.Conn, error)

// Links are the connections to components of one kind. It is safe for concurrent use.
type Links struct {
	dial  Dial
	creds credentials.TransportCredentials

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn
	closed bool
}

// New returns Links without connections. Nil credentials mean no TLS.
func New(dial Dial, creds credentials.TransportCredentials) *Links {
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	return &Links{dial: dial, creds: creds, conns: map[string]*grpc.ClientConn{}}
}

const maxMessageBytes = 64 << 20

// To returns the connection to an address. The links own it: callers must not close it.
func (l *Links) To(addr string) (*grpc.ClientConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn, ok := l.conns[addr]; ok {
		return conn, nil
	}
	if l.closed {
		return nil, errors.New("shutting down")
	}
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(l.creds),
		grpc.WithContextDialer(l.dial),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: client.KeepaliveTime, Timeout: 2 * time.Second, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", addr, err)
	}
	l.conns[addr] = conn
	return conn, nil
}

// Close ends all connections.
func (l *Links) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}
