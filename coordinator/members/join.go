package members

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/coordinator/upgrade"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/pki"
)

// membership returns the members as this leader sees them now.
func (s *Service) membership() *membership {
	return &membership{self: s.replica.ID(), peers: s.replica.Raft().Peers(), now: time.Now()}
}

// JoinPeer makes a coordinator a learner, or updates its addresses. Lead makes learners voters.
func (s *Service) JoinPeer(ctx context.Context, req *v1.JoinPeerRequest) (*v1.JoinPeerResponse, error) {
	if req.GetId() == "" || req.GetRaftAddr() == "" {
		return nil, call.Bad("id", "id and raft_addr are required")
	}
	// With such an address the others would call their own machine, which would cost the quorum.
	if host, _, err := net.SplitHostPort(req.GetRaftAddr()); err != nil || host == "" || net.ParseIP(host).IsUnspecified() {
		return nil, call.Bad("raft_addr", "%q is not an address at which others reach this coordinator: set what it advertises", req.GetRaftAddr())
	}
	if err := s.speaksFor(call.Of(ctx), req.GetId()); err != nil {
		return nil, err
	}
	// The level must not be raised between the check of the level and the change of the membership.
	s.changing.Lock()
	defer s.changing.Unlock()
	if now := s.replica.View().Level(); !upgrade.Levels(req.GetOldestLevel(), req.GetNewestLevel()).Has(now) {
		return nil, call.Errorf(codes.FailedPrecondition, "%s cannot join: %s", req.GetId(), upgrade.Unfit(now, upgrade.Levels(req.GetOldestLevel(), req.GetNewestLevel())))
	}
	how, refused := s.membership().mayJoin(req.GetId(), req.GetRaftAddr())
	if refused != "" {
		return nil, call.Errorf(codes.FailedPrecondition, "%s cannot join: %s", req.GetId(), refused)
	}
	var err error
	switch member, _ := s.membership().find(req.GetId()); {
	case how == joinLearner, how == joinMoves && !member.Voter:
		err = s.replica.Raft().AddLearner(ctx, req.GetId(), req.GetRaftAddr())
		s.log.Info("learner added", "id", req.GetId(), "raft_addr", req.GetRaftAddr())
	case how == joinMoves:
		err = s.replica.Raft().AddVoter(ctx, req.GetId(), req.GetRaftAddr())
		s.log.Info("voter has another address", "id", req.GetId(), "raft_addr", req.GetRaftAddr())
	}
	if err != nil {
		return nil, fmt.Errorf("adding %s: %w", req.GetId(), err)
	}
	row := coordinators.Coordinator{ID: req.GetId(), RaftAddr: req.GetRaftAddr(), GRPCAddr: req.GetGrpcAddr(), HTTPAddr: req.GetHttpAddr(), GossipAddr: req.GetGossipAddr()}
	if err := s.putCoordinator(ctx, row, call.Of(ctx).OperatorActor()); err != nil {
		return nil, err
	}
	member, _ := s.membership().find(req.GetId())
	return &v1.JoinPeerResponse{Voter: member.Voter}, nil
}

// speaksFor checks that a caller may set the addresses of a coordinator: it is that coordinator, or a member that
// forwards its call.
func (s *Service) speaksFor(c *call.Call, id string) error {
	if !s.tls || c.Peer.ID == id {
		return nil
	}
	if _, member := s.membership().find(c.Peer.ID); member && c.Forwarded && c.Peer.Is(pki.RoleCoordinator) {
		return nil
	}
	return call.Errorf(codes.PermissionDenied, "%s may not speak for %q", c.Peer, id)
}

func (s *Service) putCoordinator(ctx context.Context, row coordinators.Coordinator, who *access.Actor) error {
	if known, ok := s.replica.View().Coordinator(row.ID); ok && *known == row {
		return nil
	}
	result, err := replica.Propose[coordinators.CoordinatorResult](ctx, s.replica, coordinators.PutCoordinator{Coordinator: row, Actor: who})
	if err == nil && result.Refusal != nil {
		err = call.Refused(result.Refusal)
	}
	return err
}

// RemovePeer removes a coordinator from the membership, and then from the state. If a call was cut off between the two,
// the next one completes it: it removes the name even if there is no such member.
func (s *Service) RemovePeer(ctx context.Context, req *v1.RemovePeerRequest) (*v1.RemovePeerResponse, error) {
	if req.GetId() == s.replica.ID() {
		return nil, call.Errorf(codes.FailedPrecondition, "this is the leader: hand leadership over first (mind raft transfer)")
	}
	m := s.membership()
	_, member := m.find(req.GetId())
	if refused := m.mayRemove(req.GetId()); refused != "" {
		return nil, call.Errorf(codes.FailedPrecondition, "%s cannot be taken out: %s", req.GetId(), refused)
	}
	if member {
		if err := s.replica.Raft().RemoveServer(ctx, req.GetId()); err != nil {
			return nil, fmt.Errorf("removing %s: %w", req.GetId(), err)
		}
	}
	result, err := replica.Propose[coordinators.CoordinatorResult](ctx, s.replica, coordinators.DeleteCoordinator{ID: req.GetId(), Actor: call.Of(ctx).OperatorActor()})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil && !member:
		return nil, call.NotFound("peer", req.GetId())
	}
	return &v1.RemovePeerResponse{}, nil
}
