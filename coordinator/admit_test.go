package coordinator

import (
	"context"
	"log/slog"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mindcoordinator/mind/api/methods"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
)

// servedCalls returns every call that a coordinator serves, and whether it is a stream.
func servedCalls() map[string]bool {
	s := &server{config: Config{ID: "c1"}.withDefaults(), log: slog.New(slog.DiscardHandler), machine: fsm.New()}
	if err := s.prepare(); err != nil {
		panic(err)
	}
	calls := map[string]bool{}
	for service, info := range s.grpcServer().GetServiceInfo() {
		for _, m := range info.Methods {
			calls["/"+service+"/"+m.Name] = m.IsClientStream || m.IsServerStream
		}
	}
	return calls
}

// bare makes a call with an empty request, and returns the metadata of its refusal.
func (c *cluster) bare(at, method string, stream bool, pairs ...string) (metadata.MD, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longstop)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs(pairs...))
	if !stream {
		var header, trailer metadata.MD
		err := c.members[at].conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{}, grpc.Header(&header), grpc.Trailer(&trailer))
		return metadata.Join(header, trailer), err
	}
	s, err := c.members[at].conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	require.NoError(c.t, err)
	_ = s.SendMsg(&emptypb.Empty{}) // RecvMsg returns the error
	_ = s.CloseSend()
	err = s.RecvMsg(&emptypb.Empty{})
	header, _ := s.Header()
	return metadata.Join(header, s.Trailer()), err
}

func TestTenancy_everyCallNeedsTheSecret(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		secrets := map[string][]string{
			"none": nil, "empty": {status.KeySecret, ""}, "another": {status.KeySecret, "public"}, "its beginning": {status.KeySecret, "secre"},
			"more than it": {status.KeySecret, "secrets"}, "the right one second": {status.KeySecret, "x", status.KeySecret, "secret"},
		}
		calls := servedCalls()
		require.Greater(t, len(calls), 30)
		for method, stream := range calls {
			if strings.HasPrefix(method, call.AgentService) {
				continue // Agents have no secret: TLS authenticates them.
			}
			for name, secret := range secrets {
				said, err := c.bare("c1", method, stream, append([]string{status.KeyTenant, "t1", status.KeyUser, "u"}, secret...)...)
				require.Equal(t, codes.Unauthenticated.String(), grpcstatus.Code(err).String(), "%s with %s: %v", method, name, err)
				for key := range said {
					require.NotContains(t, key, "x-mind", "%s with %s: who is not known is told nothing", method, name)
				}
			}
		}
	})
}

func TestTenancy_whatIsATenantsNeedsATenant(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		var others []string
		for method, stream := range servedCalls() {
			if !methods.Of(method).ForTenant {
				others = append(others, method)
				continue
			}
			_, err := c.bare("c1", method, stream, status.KeySecret, "secret")
			requireCode(t, codes.InvalidArgument, err)
			require.Contains(t, err.Error(), "x-tenant-id is missing", method)
			_, err = c.bare("c1", method, stream, status.KeySecret, "secret", status.KeyTenant, "t1", status.KeyTenant, "t2")
			requireCode(t, codes.InvalidArgument, err)
			require.Contains(t, err.Error(), "x-tenant-id is given 2 times", method)
		}
		sort.Strings(others)
		// Add a call to this list only if it concerns no tenant.
		require.Equal(t, []string{
			"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List", "/grpc.health.v1.Health/Watch",
			"/scaimind.v1.AgentService/GetNeededOutputs",
			"/scaimind.v1.AgentService/GetServedCheckpoint",
			"/scaimind.v1.AgentService/Session",
			"/scaimind.v1.AuditService/RecordDenials",
			"/scaimind.v1.JobService/ListUploads",
			"/scaimind.v1.OperatorService/DescribeReplica",
			"/scaimind.v1.OperatorService/GetFeatureLevel",
			"/scaimind.v1.OperatorService/GetNodeActivity", "/scaimind.v1.OperatorService/GetStateHash",
			"/scaimind.v1.OperatorService/GetVotes",
			"/scaimind.v1.OperatorService/JoinPeer",
			"/scaimind.v1.OperatorService/ListPeers",
			"/scaimind.v1.OperatorService/RaiseFeatureLevel",
			"/scaimind.v1.OperatorService/ReadIndex",
			"/scaimind.v1.OperatorService/RecordSnapshot",
			"/scaimind.v1.OperatorService/RemovePeer",
			"/scaimind.v1.OperatorService/SaveSnapshot",
			"/scaimind.v1.OperatorService/TransferLeadership",
			"/scaimind.v1.SessionService/VerifySessions",
			"/scaimind.v1.TokenService/RedeemStreamTicket", "/scaimind.v1.TokenService/VerifyToken",
		}, others)
	})
}
