package votes

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/links"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

func nobody() []gossip.Member { return nil }

// voter is a coordinator that votes that every node is dead.
type voter struct {
	v1.UnimplementedOperatorServiceServer
	id string
}

func (v *voter) GetVotes(_ context.Context, req *v1.GetVotesRequest) (*v1.GetVotesResponse, error) {
	reply := &v1.GetVotesResponse{CoordinatorId: v.id}
	for _, id := range req.GetNodeIds() {
		reply.Votes = append(reply.Votes, &v1.Vote{NodeId: id, Dead: true, Liveness: "dead"})
	}
	return reply, nil
}

// Addresses are reused: the coordinator that answers at an address votes for itself only.
func TestAsk_anAnswerOfAnotherCoordinatorIsNoVote(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	v1.RegisterOperatorServiceServer(server, &voter{id: "c2"})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	others := links.New(func(ctx context.Context, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}, nil)
	t.Cleanup(others.Close)
	listed := map[string]string{"c2": l.Addr().String(), "c3": l.Addr().String()}
	r := replica.New(replica.Config{ID: "c1", Listed: listed, Life: t.Context(), Log: slog.New(slog.DiscardHandler)}, fsm.New(), others)
	s := New("c1", false, nobody, r)
	votes, err := s.Ask(t.Context(), "c2", []string{"n1"})
	require.NoError(t, err)
	require.True(t, votes[0].GetDead())
	_, err = s.Ask(t.Context(), "c3", []string{"n1"})
	require.ErrorContains(t, err, "c2 answers at its address")
	_, err = s.Ask(t.Context(), "c4", []string{"n1"})
	require.ErrorContains(t, err, "its address is not known")
	votes, err = s.Ask(t.Context(), "c1", []string{"n1"})
	require.NoError(t, err, "it votes itself, too")
	require.False(t, votes[0].GetDead())
}

func TestGetVotes_areForCoordinators(t *testing.T) {
	s := New("c1", true, nobody, nil)
	ask := func(role string) codes.Code {
		ctx := call.With(t.Context(), &call.Call{Peer: pki.Identity{ID: "x", Role: role}})
		_, err := s.GetVotes(ctx, &v1.GetVotesRequest{NodeIds: []string{"n1"}})
		return grpcstatus.Code(err)
	}
	require.Equal(t, codes.OK, ask(pki.RoleCoordinator))
	for _, role := range []string{pki.RoleGateway, pki.RoleOperator, pki.RoleAgent} {
		require.Equal(t, codes.PermissionDenied, ask(role))
	}
}
