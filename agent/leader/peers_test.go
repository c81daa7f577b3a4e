package leader

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mindcoordinator/mind/agent/lease"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// slowPeer has no session, and needs its time to say so.
type slowPeer struct {
	v1.UnimplementedPeerServiceServer
	think func()
}

func (p slowPeer) Ping(context.Context, *v1.PingRequest) (*v1.PingResponse, error) {
	p.think()
	return &v1.PingResponse{NodeId: "n2", SessionClosed: true}, nil
}

// When a peer gave its word is not known, only that it was after the question: it may be in session again by the time the
// answer arrives.
func TestAPeersWordCountsFromTheQuestion(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	clock.Store(int64(100 * time.Second))
	const thinks = 2 * time.Second
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	v1.RegisterPeerServiceServer(server, slowPeer{think: func() { clock.Add(int64(thinks)) }})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	log := slog.New(slog.DiscardHandler)
	leases := NewLeases("n1", lease.Timing{}, 0, clock.Load, log)
	peers := NewPeers(PeersConfig{
		Node: "n1", Network: tcp{}, Leases: leases, Clock: clock.Load, Log: log,
		Credentials: func(string) credentials.TransportCredentials { return insecure.NewCredentials() },
	})
	defer peers.closeAll()
	leases.with(func(b *lease.Book, _ int64) { b.SetRoster(5, []string{"n1", "n2"}) })
	peer := &v1.RosterMember{NodeId: "n2", GrpcAddr: listener.Addr().String()}
	for giveUp := time.Now().Add(time.Minute); ; {
		require.True(t, time.Now().Before(giveUp), "the peer does not answer")
		var asked, until, now int64
		var answered bool
		asked = clock.Load()
		peers.pingOne(t.Context(), peer)
		leases.with(func(b *lease.Book, at int64) {
			now = at
			until, answered = b.RunOn(now)
		})
		if !answered || now != asked+int64(thinks) {
			clock.Add(int64(time.Minute)) // A question that this machine was too slow for; its answer must not count.
			continue
		}
		require.Equal(t, asked+int64(leases.Timing().Window), until)
		return
	}
}

type tcp struct{}

func (tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}
