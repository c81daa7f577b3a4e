// Package votes votes on nodes from this coordinator's gossip, and asks the other coordinators for their votes.
//
// Guarantees. A coordinator votes only for itself: an answer from another coordinator than the one that was asked is an
// error. A voter that does not answer within a second has not voted.
package votes

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

// timeout limits how long the leader waits for the vote of another coordinator.
const timeout = time.Second

// Service votes, and asks for votes.
type Service struct {
	self    string
	tls     bool
	members func() []gossip.Member
	replica *replica.Replica
}

// New makes the service of a coordinator. members is its view of gossip, empty without gossip; with tls only coordinators
// may ask.
func New(self string, tls bool, members func() []gossip.Member, r *replica.Replica) *Service {
	return &Service{self: self, tls: tls, members: members, replica: r}
}

// GetVotes returns this replica's votes on nodes, from its own gossip. The leader asks each voter, and the state counts
// the votes: no replica may vote for another.
func (s *Service) GetVotes(ctx context.Context, req *v1.GetVotesRequest) (*v1.GetVotesResponse, error) {
	if who := call.Of(ctx).Peer; s.tls && !who.Is(pki.RoleCoordinator) {
		return nil, call.Errorf(codes.PermissionDenied, "only coordinators may ask for votes; the certificate has the role %s", who)
	}
	return &v1.GetVotesResponse{CoordinatorId: s.self, Votes: s.own(req.GetNodeIds())}, nil
}

func (s *Service) own(nodes []string) []*v1.Vote {
	return liveness.Votes(s.members(), s.self, nodes, time.Now())
}

// Ask returns the votes of a voter on nodes.
func (s *Service) Ask(ctx context.Context, voter string, nodes []string) ([]*v1.Vote, error) {
	if voter == s.self {
		return s.own(nodes), nil
	}
	addr := s.replica.GRPCAddr(voter)
	if addr == "" {
		return nil, fmt.Errorf("its address is not known")
	}
	conn, err := s.replica.Link(addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx = s.replica.AsReplica(ctx)
	resp, err := v1.NewOperatorServiceClient(conn).GetVotes(ctx, &v1.GetVotesRequest{NodeIds: nodes})
	if err != nil {
		return nil, err
	}
	if resp.GetCoordinatorId() != voter {
		return nil, fmt.Errorf("%s answers at its address", resp.GetCoordinatorId())
	}
	return resp.GetVotes(), nil
}
