package agent

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

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

	a := &agent{cfg: Config{NodeID: "n1", Machine: Machine{Network: tcp{}, Clock: clock.Load}}}
	a.leases, a.peers = newLeases(a, 0), newPeers(a)
	defer a.peers.closeAll()
	a.leases.with(func(k *lease.Keeper, _ int64) { k.SetRoster(5, []string{"n1", "n2"}) })
	peer := &v1.RosterMember{NodeId: "n2", GrpcAddr: listener.Addr().String()}
	for giveUp := time.Now().Add(time.Minute); ; {
		require.True(t, time.Now().Before(giveUp), "the peer does not answer")
		var asked, until, now int64
		var answered bool
		asked = clock.Load()
		a.peers.pingOne(t.Context(), peer)
		a.leases.with(func(k *lease.Keeper, at int64) {
			now = at
			until, answered = k.RunOn(now)
		})
		if !answered || now != asked+int64(thinks) {
			clock.Add(int64(time.Minute)) // A question that this machine was too slow for; its answer must not count.
			continue
		}
		require.Equal(t, asked+int64(a.leases.keeper.Timing().Window), until)
		return
	}
}

func TestARosterThatIsNotOnDiskIsNotNamed(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	cfg := testConfig(t, l)
	inTheWay := filepath.Join(cfg.DataDir, rosterFile)
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	l.roster = &v1.Roster{Version: 7, Members: []*v1.RosterMember{{NodeId: "n1", GrpcAddr: "127.0.0.1:1"}}}
	inProcess(t, cfg)
	l.await("heartbeats", func() bool { return l.beats > 5 })
	named := false
	l.change(func() { named = l.keeps(7) })
	require.False(t, named, "the leader would believe that this agent knows it, and it would not after a restart")
	require.NoError(t, os.Remove(inTheWay))
	l.await("the roster", func() bool { return l.keeps(7) })
	require.FileExists(t, filepath.Join(cfg.DataDir, rosterFile))
}
