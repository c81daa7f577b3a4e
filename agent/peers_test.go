package agent

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/agent/leader"
	"github.com/mindcoordinator/mind/agent/lease"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/pki"
)

// pair holds two agents with a separate leader each, so that a test can treat them differently.
type pair struct {
	leaders [2]*fakeLeader
	cfgs    [2]Config
	agents  [2]*agent
	stops   [2]func()
}

func newPair(t *testing.T, timing lease.Timing) *pair {
	p := &pair{}
	roster := &v1.Roster{Version: 5}
	for i, name := range []string{"n1", "n2"} {
		p.leaders[i] = newLeader(t)
		p.cfgs[i] = testConfig(t, p.leaders[i])
		p.cfgs[i].NodeID, p.cfgs[i].Leases = name, timing
		p.agents[i], p.stops[i] = opened(t, p.cfgs[i])
		l := p.leaders[i]
		roster.Members = append(roster.Members, &v1.RosterMember{NodeId: name, GrpcAddr: l.hello(0).GetGrpcAddr()})
	}
	for _, l := range p.leaders {
		l.change(func() { l.roster = roster })
		l.await("the roster", func() bool { return l.keeps(5) })
	}
	return p
}

// lose ends the sessions of an agent until back is called.
func (p *pair) lose(t *testing.T, i int) (back func()) {
	l := p.leaders[i]
	hellos := 0
	l.change(func() { l.refuse, hellos = "127.0.0.1:1", len(l.hellos) })
	p.agents[i].sessions.Restart()
	require.Eventually(t, func() bool { return !p.agents[i].sessions.Live() }, 30*time.Second, time.Millisecond)
	return func() {
		l.change(func() { l.refuse = "" })
		l.await("a session", func() bool { return len(l.hellos) > hellos })
	}
}

func (p *pair) connections(i int) int {
	return p.agents[i].peers.Connections()
}

// gaveWord reports whether the agent has answered a peer that its session was closed.
func (p *pair) gaveWord(i int) (gave bool) {
	_, gave = p.agents[i].leases.LastClosedAnswer()
	return gave
}

func TestRenewalsGoThroughAnotherNode(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for leases to run out, which takes long")
	}
	t.Parallel()
	p := newPair(t, lease.Timing{})
	o := leased(order("sleep", "1000"), 14*time.Second, true)
	p.leaders[0].want(o)
	pid := p.leaders[0].running(o.GetTask())
	back := p.lose(t, 0)
	passed(t, after(18*time.Second))
	require.True(t, alive(pid), "it was stopped although its leases were renewed")
	other := p.leaders[1]
	other.await("renewals", func() bool { return len(other.relayed) > 2 })
	other.mu.Lock()
	renewals := other.relayed
	other.mu.Unlock()
	last := uint64(0)
	for _, r := range renewals {
		require.Equal(t, "n1", r.GetNodeId())
		require.Equal(t, p.agents[0].bootID, r.GetBootId())
		require.EqualValues(t, 5, r.GetRosterVersion())
		require.Greater(t, r.GetSeq(), last)
		last = r.GetSeq()
	}
	require.Positive(t, p.connections(0))
	require.Positive(t, p.agents[1].relays.Passed())
	back()
	require.Eventually(t, func() bool { return p.connections(0) == 0 }, 30*time.Second, time.Millisecond, "connections stay open in session")
	require.Zero(t, p.connections(1))

	// A leader that does not acknowledge renewals renews nothing, through any node.
	other.change(func() { other.aloof = true })
	p.lose(t, 0)
	stoppedByItself(t, p.cfgs[0], o, pid)
}

func TestATaskRunsOnWhileNobodyCouldReplaceIt(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for leases to run out, which takes long")
	}
	t.Parallel()
	p := newPair(t, lease.Timing{Window: 15 * time.Second})
	o := leased(order("sleep", "1000"), 14*time.Second, true)
	p.leaders[0].want(o)
	pid := p.leaders[0].running(o.GetTask())
	p.lose(t, 1)
	backwards := p.lose(t, 0)
	passed(t, after(18*time.Second))
	require.True(t, alive(pid), "an outage of the coordinators stopped a task")
	require.True(t, p.gaveWord(1))

	// The other node is gone, so it is unknown whether it could run a replacement.
	p.stops[1]()
	stoppedByItself(t, p.cfgs[0], o, pid)
	backwards()
	require.Equal(t, v1.ErrorType_NODE_LOST, p.leaders[0].ended(o.GetTask()).GetErrorType())
}

// The next agent finds the roster on disk, and continues.
func TestATaskRunsOnUnderTheNextAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for leases to run out, which takes long")
	}
	t.Parallel()
	p := newPair(t, lease.Timing{Window: 15 * time.Second})
	o := leased(order("sleep", "1000"), 14*time.Second, true)
	p.leaders[0].want(o)
	pid := p.leaders[0].running(o.GetTask())
	p.lose(t, 1)
	p.lose(t, 0)
	require.Eventually(t, func() bool { return p.gaveWord(1) }, 30*time.Second, 10*time.Millisecond)
	p.stops[0]()
	opened(t, p.cfgs[0])
	passed(t, after(20*time.Second)) // longer than the lease, and than the answers to the earlier agent count
	require.True(t, alive(pid), "a new agent does not know what lets tasks run on")
}

func TestATaskRunsOnWhileTheLeaderProvesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for leases to run out, which takes long")
	}
	t.Parallel()
	p := newPair(t, lease.Timing{Window: 10 * time.Second})
	o := leased(order("sleep", "1000"), 14*time.Second, true)
	p.leaders[0].want(o)
	pid := p.leaders[0].running(o.GetTask())
	for _, l := range p.leaders {
		l.change(func() { l.mute = true }) // it still welcomes agents
	}
	passed(t, after(24*time.Second))
	require.True(t, alive(pid), "a coordinator that hangs stopped a task")
	other := p.leaders[1]
	other.change(func() { other.mute = false })
	p.leaders[0].change(func() { p.leaders[0].refuse = "127.0.0.1:1" })
	other.await("renewals", func() bool { return len(other.relayed) > 2 })
	require.True(t, alive(pid))
}

func TestATaskDoesNotRunOnWhenAnotherNodeIsInSession(t *testing.T) {
	t.Parallel()
	p := newPair(t, lease.Timing{})
	o := leased(order("sleep", "1000"), 10*time.Second, true)
	kept := leased(order("sleep", "1000"), time.Hour, false)
	p.leaders[0].want(o, kept)
	pid, keptPid := p.leaders[0].running(o.GetTask()), p.leaders[0].running(kept.GetTask())
	// The other node has a session, with a leader that does not acknowledge this node's renewals.
	p.leaders[1].change(func() { p.leaders[1].aloof = true })
	p.lose(t, 0)
	stoppedByItself(t, p.cfgs[0], o, pid)
	require.True(t, alive(keptPid))
	require.False(t, p.gaveWord(1))
}

func TestOneWhoAnswersForAnotherIsNotBelieved(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	v1.RegisterPeerServiceServer(server, impostor{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	l.await("heartbeats", func() bool { return l.beats > 0 })
	l.change(func() {
		l.roster = &v1.Roster{Version: 5, Members: []*v1.RosterMember{{NodeId: "n1"}, {NodeId: "n2", GrpcAddr: listener.Addr().String()}}}
	})
	o := leased(order("sleep", "1000"), 10*time.Second, true)
	l.want(o)
	pid := l.running(o.GetTask())
	l.await("the roster", func() bool { return l.keeps(5) })
	l.server.Stop()
	stoppedByItself(t, cfg, o, pid)
}

type impostor struct {
	v1.UnimplementedPeerServiceServer
}

func (impostor) Ping(context.Context, *v1.PingRequest) (*v1.PingResponse, error) {
	return &v1.PingResponse{NodeId: "n3", SessionClosed: true}, nil
}

func (impostor) Relay(context.Context, *v1.RelayRequest) (*v1.RelayResponse, error) {
	return &v1.RelayResponse{Seq: 1}, nil
}

func TestWhoMayCallWhat(t *testing.T) {
	dir := t.TempDir()
	ca, err := pki.CreateCA(dir)
	require.NoError(t, err)
	issue := func(id, role string) pki.Files {
		files, err := ca.Issue(dir, id, role)
		require.NoError(t, err)
		return files
	}
	serverTLS, err := issue("c1", pki.RoleCoordinator).ServerTLS()
	require.NoError(t, err)
	l := newLeader(t, grpc.Creds(credentials.NewTLS(serverTLS)))
	cfg := testConfig(t, l)
	cfg.TLS = issue("n1", pki.RoleAgent)
	a, _ := opened(t, cfg)
	l.await("heartbeats", func() bool { return l.beats > 0 })
	addr := l.hello(0).GetGrpcAddr()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	dial := func(id, role string) *grpc.ClientConn {
		clientTLS, err := issue(id, role).ClientTLS()
		require.NoError(t, err)
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(clientTLS)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	ping := func(conn *grpc.ClientConn) codes.Code {
		_, err := v1.NewPeerServiceClient(conn).Ping(ctx, &v1.PingRequest{NodeId: "n2"})
		return status.Code(err)
	}
	relay := func(conn *grpc.ClientConn, r *v1.Renewal) codes.Code {
		_, err := v1.NewPeerServiceClient(conn).Relay(ctx, &v1.RelayRequest{Renewal: r})
		return status.Code(err)
	}
	logs := func(conn *grpc.ClientConn) codes.Code {
		stream, err := v1.NewTaskServiceClient(conn).ReadTaskLogs(ctx, &v1.ReadTaskLogsRequest{JobId: "job_x", Attempt: 1})
		require.NoError(t, err)
		_, err = stream.Recv()
		return status.Code(err)
	}
	other, coordinator := dial("n2", pki.RoleAgent), dial("c2", pki.RoleCoordinator)
	require.Equal(t, codes.OK, ping(other))
	require.Equal(t, codes.PermissionDenied, logs(other))
	require.Equal(t, codes.NotFound, logs(coordinator))
	require.Equal(t, codes.PermissionDenied, ping(coordinator))
	require.Equal(t, codes.Unavailable, ping(dial("gw", pki.RoleGateway)))
	require.Equal(t, codes.OK, relay(other, &v1.Renewal{NodeId: "n2", Seq: 9}))
	require.Equal(t, codes.PermissionDenied, relay(other, &v1.Renewal{NodeId: "n3", Seq: 9}), "it renews the leases of others")
	require.Equal(t, codes.PermissionDenied, relay(coordinator, &v1.Renewal{NodeId: "c2", Seq: 9}))
	require.Equal(t, codes.InvalidArgument, relay(other, nil))
	l.await("the renewal", func() bool { return len(l.relayed) == 1 && l.relayed[0].GetNodeId() == "n2" })

	// The caller also checks which node answers.
	for want, node := range map[codes.Code]string{codes.OK: "n1", codes.Unavailable: "n2"} {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(a.peerCredentials(node)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.Equal(t, want, ping(conn))
	}
}

func TestARelayedRenewalWaitsForTheLeader(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.mute = true
	a, _ := opened(t, testConfig(t, l))
	service := leader.NewPeerService("n1", a.leases, a.relays, false)
	l.await("heartbeats", func() bool { return l.beats > 0 })
	request := func(seq uint64) *v1.RelayRequest {
		return &v1.RelayRequest{Renewal: &v1.Renewal{NodeId: "n2", Seq: seq}}
	}
	_, err := service.Relay(context.Background(), request(1))
	require.Contains(t, []codes.Code{codes.DeadlineExceeded, codes.Unavailable}, status.Code(err), "the leader had not answered")
	l.change(func() { l.mute = false })
	require.Eventually(t, func() bool {
		answer, err := service.Relay(context.Background(), request(2))
		return err == nil && answer.GetSeq() == 2
	}, 30*time.Second, time.Millisecond)
	l.server.Stop()
	require.Eventually(t, func() bool {
		_, err := service.Relay(context.Background(), request(3))
		return status.Code(err) == codes.Unavailable
	}, 30*time.Second, time.Millisecond)
}

// closed asks an agent, as its peers do, whether its session is closed.
func closed(a *agent) func() bool {
	service := leader.NewPeerService(a.cfg.NodeID, a.leases, a.relays, false)
	return func() bool {
		answer, err := service.Ping(context.Background(), nil)
		return err == nil && answer.GetSessionClosed()
	}
}
