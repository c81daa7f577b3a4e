package leader

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mindcoordinator/mind/agent/lease"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/virtual/network"
)

// slowPeer answers after a while that its session is closed.
type slowPeer struct {
	v1.UnimplementedPeerServiceServer
	think func()
}

func (p slowPeer) Ping(context.Context, *v1.PingRequest) (*v1.PingResponse, error) {
	p.think()
	return &v1.PingResponse{NodeId: "n2", SessionClosed: true}, nil
}

// An answer counts from the time of the question: when the peer gave it is unknown, and it may have a session again
// when the answer arrives.
func TestAPeersWordCountsFromTheQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var clock atomic.Int64
		clock.Store(int64(100 * time.Second))
		const thinks = 2 * time.Second
		net := network.New(1)
		own, others := net.Host("10.0.0.1"), net.Host("10.0.0.2")
		listener, err := others.Listen(others.Addr(7000))
		require.NoError(t, err)
		server := grpc.NewServer()
		v1.RegisterPeerServiceServer(server, slowPeer{think: func() { clock.Add(int64(thinks)) }})
		go func() { _ = server.Serve(listener) }()
		defer server.Stop()

		log := slog.New(slog.DiscardHandler)
		leases := NewLeases("n1", lease.Timing{}, 0, clock.Load, log)
		peers := NewPeers(PeersConfig{
			Node: "n1", Network: own, Leases: leases, Clock: clock.Load, Log: log,
			Credentials: func(string) credentials.TransportCredentials { return insecure.NewCredentials() },
		})
		defer peers.closeAll()
		leases.with(func(b *lease.Book, _ int64) { b.SetRoster(5, []string{"n1", "n2"}) })
		asked := clock.Load()
		peers.pingOne(t.Context(), &v1.RosterMember{NodeId: "n2", GrpcAddr: others.Addr(7000)})
		leases.with(func(b *lease.Book, now int64) {
			require.Equal(t, asked+int64(thinks), now)
			until, answered := b.RunOn(now)
			require.True(t, answered)
			require.Equal(t, asked+int64(leases.Timing().Window), until)
		})
	})
}
