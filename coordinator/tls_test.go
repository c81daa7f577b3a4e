package coordinator

import (
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

// The test uses real sockets: all calls between coordinators, and to them, go over TCP and TLS.
func TestTLS_certificatesSayWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := pki.CreateCA(dir)
	require.NoError(t, err)
	issue := func(id, role string) pki.Files {
		files, err := ca.Issue(dir, id, role, "127.0.0.1")
		require.NoError(t, err)
		return files
	}
	c := newClusterOnTCP(t)
	dial := func(id, role, addr string) *grpc.ClientConn {
		config, err := issue(id, role).ClientTLS()
		require.NoError(t, err)
		return c.dial(addr, credentials.NewTLS(config))
	}
	c.place(3, func(config *Config) {
		files := issue(config.ID, pki.RoleCoordinator)
		config.CertFile, config.KeyFile, config.CAFile = files.Cert, files.Key, files.CA
	})
	for _, id := range c.ids {
		m := c.members[id]
		m.conn, m.peer = dial("gateway", pki.RoleGateway, m.config.GRPCAddr), dial("c9", pki.RoleCoordinator, m.config.GRPCAddr)
		c.start(id)
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
		// A Send on a refused stream fails with EOF. Recv returns the reason.
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
