package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mindcoordinator/mind/chaos/virtual/disk"
	"github.com/mindcoordinator/mind/chaos/virtual/network"
	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
	"github.com/mindcoordinator/mind/raftnode"
	"github.com/mindcoordinator/mind/raftnode/stream"
)

// Ports of all hosts in memory.
const (
	portGRPC   = 7000
	portHTTP   = 7001
	portRaft   = 7002
	portGossip = 7003
)

// inBubble runs a test in virtual time, in parallel with others. Its clusters are in memory. Only waiting takes virtual
// time, so a slow machine ends no call early, elects no other leader and makes no node unreachable.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// newCluster returns a cluster in memory without coordinators. It must be called in a bubble.
func newCluster(t testing.TB) *cluster {
	c := &cluster{t: t, members: map[string]*member{}, net: network.New(1)}
	c.users = c.net.Host("10.0.2.1")
	t.Cleanup(func() { c.users.Kill(false) })
	c.web = &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, addr string) (net.Conn, error) { return c.users.Dial(ctx, addr) },
		DisableKeepAlives: true,
	}}
	return c
}

// newClusterOnTCP returns a cluster in real time, on real sockets and with files on disk.
func newClusterOnTCP(t testing.TB) *cluster {
	return &cluster{t: t, members: map[string]*member{}, sockets: &porttest.Sockets{}, web: http.DefaultClient}
}

// place prepares the n initial voters. change may adapt their configuration.
func (c *cluster) place(n int, change func(*Config)) {
	c.t.Helper()
	var peers []Peer
	for i := range n {
		p := Peer{ID: fmt.Sprintf("c%d", i+1)}
		c.ids = append(c.ids, p.ID)
		c.members[p.ID] = &member{}
		p.GRPCAddr, p.HTTPAddr, p.RaftAddr = c.addresses(p.ID)
		peers = append(peers, p)
	}
	for _, p := range peers {
		config := Config{
			ID: p.ID, DataDir: c.t.TempDir(), GRPCAddr: p.GRPCAddr, HTTPAddr: p.HTTPAddr, RaftAddr: p.RaftAddr,
			Peers: peers, APISecret: "secret", Logger: slog.New(slog.DiscardHandler),
		}
		if c.sockets != nil {
			config.Timers, config.Network = unhurried, c.sockets
		}
		if change != nil {
			change(&config)
		}
		c.members[p.ID].config = config
	}
	c.t.Cleanup(func() {
		var all sync.WaitGroup
		for _, id := range c.ids {
			all.Go(func() { c.kill(id) })
		}
		all.Wait()
	})
}

// addresses returns addresses for a coordinator that has none yet.
func (c *cluster) addresses(id string) (grpc, http, raft string) {
	c.t.Helper()
	if c.sockets != nil {
		return c.sockets.Open(c.t), c.sockets.Open(c.t), c.sockets.Open(c.t)
	}
	m := c.members[id]
	m.ip = fmt.Sprintf("10.0.0.%d", len(c.members))
	if !c.onFiles {
		m.disk = disk.New(uint64(len(c.members)), false)
	}
	return at(m.ip, portGRPC), at(m.ip, portHTTP), at(m.ip, portRaft)
}

func at(ip string, port int) string { return fmt.Sprintf("%s:%d", ip, port) }

// settle gives a process that is about to start its host and disk in memory.
func (c *cluster) settle(m *member, config *Config) {
	c.t.Helper()
	m.host = c.net.Host(m.ip)
	config.Network = m.host
	if config.GossipAddr != "" {
		carrier, err := m.host.Gossip(portGossip)
		require.NoError(c.t, err)
		config.GossipTransport = carrier
	}
	if m.disk == nil {
		return
	}
	mount, tune := m.disk.Mount(), config.RaftTuning
	config.RaftTuning = func(r *raftnode.Config) {
		r.Stores = func() (raftnode.Store, raft.SnapshotStore, error) { return mount, mount, nil }
		if tune != nil {
			tune(r)
		}
	}
}

// node returns a listener and a dialer for an agent, and a function that releases its host.
func (c *cluster) node() (net.Listener, func(ctx context.Context, addr string) (net.Conn, error), func()) {
	c.t.Helper()
	if c.sockets != nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(c.t, err)
		return l, c.sockets.Dial, func() {}
	}
	c.agents++
	host := c.net.Host(fmt.Sprintf("10.0.1.%d", c.agents))
	l, err := host.Listen(host.Addr(portGRPC))
	require.NoError(c.t, err)
	return l, host.Dial, func() { host.Kill(false) }
}

// dial connects the test to a coordinator; nil credentials: without TLS.
func (c *cluster) dial(addr string, creds credentials.TransportCredentials) *grpc.ClientConn {
	c.t.Helper()
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	reach := stream.TCP{}.Dial
	if c.net != nil {
		reach = c.users.Dial
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds), grpc.WithContextDialer(reach),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn
}
