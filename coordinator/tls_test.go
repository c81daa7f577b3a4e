package coordinator

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/pki"
)

func TestTLS_certificatesSayWhoMayDoWhat(t *testing.T) {
	dir := t.TempDir()
	ca, err := pki.CreateCA(dir)
	require.NoError(t, err)
	issue := func(id, role string) pki.Files {
		files, err := ca.Issue(dir, id, role, "127.0.0.1")
		require.NoError(t, err)
		return files
	}
	c := &cluster{t: t, members: map[string]*member{}}
	dial := func(id, role, addr string) *grpc.ClientConn {
		config, err := issue(id, role).ClientTLS()
		require.NoError(t, err)
		conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	ports := freePorts(t, 9)
	var peers []Peer
	for i, id := range []string{"c1", "c2", "c3"} {
		c.ids = append(c.ids, id)
		peers = append(peers, Peer{ID: id, GRPCAddr: ports[3*i], HTTPAddr: ports[3*i+1], RaftAddr: ports[3*i+2]})
	}
	for i, id := range c.ids {
		files := issue(id, pki.RoleCoordinator)
		c.members[id] = &member{conn: dial("gateway", pki.RoleGateway, peers[i].GRPCAddr), peer: dial("c9", pki.RoleCoordinator, peers[i].GRPCAddr), config: Config{
			ID: id, DataDir: t.TempDir(), GRPCAddr: peers[i].GRPCAddr, HTTPAddr: peers[i].HTTPAddr, RaftAddr: peers[i].RaftAddr,
			Peers: peers, APISecret: "secret", CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA,
			Logger: slog.New(slog.DiscardHandler), Timers: unhurried,
		}}
		c.start(id)
		t.Cleanup(func() { c.kill(id) })
	}
	leader, follower := c.leader(), c.follower()
	id := c.submit(follower, sleeper(1, 0)) // forwarded over TLS
	require.Equal(t, id, c.get(follower, id).GetJobId())

	noSecret := metadata.NewOutgoingContext(t.Context(), metadata.Pairs(status.KeyTenant, "t1"))
	_, err = c.jobs(leader).GetJob(noSecret, &v1.GetJobRequest{JobId: id})
	requireCode(t, codes.Unauthenticated, err)

	asAgent := dial("n1", pki.RoleAgent, c.members[leader].config.GRPCAddr)
	_, err = v1.NewJobServiceClient(asAgent).GetJob(c.ctx("t1", ""), &v1.GetJobRequest{JobId: id})
	requireCode(t, codes.PermissionDenied, err)
	session := func(conn *grpc.ClientConn, node string) error {
		stream, err := v1.NewAgentServiceClient(conn).Session(c.ctx("", ""))
		require.NoError(t, err)
		// What is sent on a stream that was refused fails with EOF; why it was refused comes with Recv.
		_ = stream.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Hello{Hello: &v1.Hello{NodeId: node, BootId: "b", GrpcAddr: "127.0.0.1:1", CpuCount: 1}}})
		_, err = stream.Recv()
		return err
	}
	requireCode(t, codes.PermissionDenied, session(asAgent, "n2"))
	requireCode(t, codes.PermissionDenied, session(c.members[leader].conn, "n1"))
	require.NoError(t, session(asAgent, "n1"))
	_, err = v1.NewAgentServiceClient(asAgent).GetNeededOutputs(c.ctx("", ""), &v1.GetNeededOutputsRequest{NodeId: "n1"})
	require.NoError(t, err)
	_, err = v1.NewAgentServiceClient(asAgent).GetNeededOutputs(c.ctx("", ""), &v1.GetNeededOutputsRequest{NodeId: "n2"})
	requireCode(t, codes.PermissionDenied, err)

	asCoordinator := dial("c1", pki.RoleCoordinator, c.members[leader].config.GRPCAddr)
	_, err = v1.NewJobServiceClient(asCoordinator).GetJob(noSecret, &v1.GetJobRequest{JobId: id})
	require.NoError(t, err, "a coordinator vouches for what it hands on")
	_, err = v1.NewOperatorServiceClient(asCoordinator).JoinPeer(noSecret, &v1.JoinPeerRequest{Id: "c2", RaftAddr: "127.0.0.1:1"})
	requireCode(t, codes.PermissionDenied, err)
}
