// Package client calls a cluster of coordinators as if it were one server.
//
// Contract: a Client is a grpc.ClientConnInterface over the addresses of any number of coordinators. It calls the
// leader if it knows it from earlier answers, and otherwise any coordinator, which forwards the call to the leader. A
// unary call whose coordinator is gone, hangs, or knows no leader is repeated at another one until it is answered,
// until Call.RetryFor has passed, or until its context ends.
//
// Guarantees: a call is repeated only if that is safe: the coordinator said that it had no effect, it never left this
// process, it only reads, or it carries an idempotency key. Any other call that fails is returned as UNAVAILABLE after one
// try, and its outcome is unknown. A try of a repeatable call is cut short, so that a stopped coordinator cannot use up the
// caller's time.
//
// A stream is opened at a coordinator that answered within the last second, or that just answered a health check
// (grpc.health.v1). So it is not opened at a coordinator that accepts connections but never answers. If a coordinator
// stops answering while a stream is open, the connection's keepalive notices within KeepaliveTime and two seconds: the
// stream ends with UNAVAILABLE.
//
// Not guaranteed: that two calls go to the same coordinator, and anything else about open streams; their users resume them
// by cursor.
package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// KeepaliveTime is the time between two probes of an idle connection. A server must allow it (see ServerKeepalive), or
// it closes such connections.
const KeepaliveTime = 10 * time.Second

// The flow control windows are fixed. Otherwise gRPC would send pings all the time to measure the connection.
const (
	streamWindow = 256 << 10
	connWindow   = 4 << 20
)

// ServerKeepalive returns the options with which a gRPC server allows the keepalive of this package's clients, and matches
// their settings.
func ServerKeepalive() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: KeepaliveTime / 2, PermitWithoutStream: true}),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow),
	}
}

// Config configures a client. The zero value of an optional field selects its default.
type Config struct {
	// Addrs lists gRPC addresses of coordinators, at least one. Leaders at other addresses are found through these.
	Addrs []string
	// TLS is the client side of mutual TLS; nil: plaintext.
	TLS *tls.Config
	// Secret is sent with every call; empty: none.
	Secret string
	// Conns is the number of connections to each coordinator; default 1.
	Conns int
	// TryTimeout limits the first try of a repeatable call; default 1.5 s. Each further try gets twice as long as the
	// previous one.
	TryTimeout time.Duration
	// DialOptions are added to those of every connection.
	DialOptions []grpc.DialOption
}

// Client is safe for concurrent use.
type Client struct {
	config Config
	dial   []grpc.DialOption
	leader atomic.Pointer[leader]
	next   atomic.Uint32 // the target to begin with when no leader is known

	mu      sync.Mutex // guards writes of targets
	targets atomic.Pointer[[]*target]
	closed  bool
}

// leader is the leader named by an answer, and its target.
type leader struct {
	raw    string // as received: "id=addr"
	id     string
	target *target
}

// maxTargets limits the number of addresses that a client dials, because wrong answers could name ever new leaders.
const maxTargets = 64

// Dial returns a client. It connects when the first call is made.
func Dial(config Config) (*Client, error) {
	if len(config.Addrs) == 0 {
		return nil, errors.New("no coordinator address given")
	}
	if len(config.Addrs) > maxTargets/2 {
		return nil, fmt.Errorf("%d coordinator addresses given; at most %d", len(config.Addrs), maxTargets/2)
	}
	if config.Conns <= 0 {
		config.Conns = 1
	}
	if config.TryTimeout <= 0 {
		config.TryTimeout = 1500 * time.Millisecond
	}
	creds := insecure.NewCredentials()
	if config.TLS != nil {
		creds = credentials.NewTLS(config.TLS)
	}
	c := &Client{config: config, dial: append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: KeepaliveTime, Timeout: 2 * time.Second, PermitWithoutStream: true}),
		// With these parameters a restarted coordinator is found quickly, and a missing one costs two connection
		// attempts per second.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}),
	}, config.DialOptions...)}
	targets := []*target{}
	for _, addr := range config.Addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("coordinator address: %w", err)
		}
		t, err := c.connect(addr)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	c.targets.Store(&targets)
	return c, nil
}

// Jobs returns a client of the cluster's job service.
func (c *Client) Jobs() v1.JobServiceClient { return v1.NewJobServiceClient(c) }

// Cluster returns a client of its cluster service.
func (c *Client) Cluster() v1.ClusterServiceClient { return v1.NewClusterServiceClient(c) }

// Operators returns a client of its operator service.
func (c *Client) Operators() v1.OperatorServiceClient { return v1.NewOperatorServiceClient(c) }

// Leader returns the id and gRPC address of the last known leader; empty if none is known, or if it has stopped answering.
func (c *Client) Leader() (id, addr string) {
	if l := c.leader.Load(); l != nil {
		return l.id, l.target.addr
	}
	return "", ""
}

// Close ends all connections; calls in flight fail.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for _, t := range *c.targets.Load() {
		errs = append(errs, t.close())
	}
	return errors.Join(errs...)
}
