package members

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
)

// TransferLeadership hands leadership to another voter, and returns when it has taken it.
func (s *Service) TransferLeadership(ctx context.Context, req *v1.TransferLeadershipRequest) (*v1.TransferLeadershipResponse, error) {
	if req.GetTo() == s.replica.ID() {
		return &v1.TransferLeadershipResponse{Leader: s.replica.ID()}, nil
	}
	if to := req.GetTo(); to != "" {
		m := s.membership()
		if p, ok := m.find(to); !ok || !p.Voter {
			return nil, call.NotFound("voter", to)
		}
		if why := m.mayLead(to); why != "" {
			return nil, call.Errorf(codes.FailedPrecondition, "%s cannot take leadership: %s", to, why)
		}
	}
	changed, stop := s.replica.Raft().LeaderChanges()
	defer stop()
	if err := s.replica.Raft().Transfer(ctx, req.GetTo()); err != nil {
		return nil, fmt.Errorf("handing leadership over: %w", err)
	}
	timer := time.NewTimer(s.leaderWait)
	defer timer.Stop()
	for {
		if id, _ := s.replica.Raft().Leader(); id != "" && id != s.replica.ID() {
			return &v1.TransferLeadershipResponse{Leader: id}, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, &call.Failure{Code: codes.Unavailable, Message: "leadership was handed over, but nobody is known to have it yet", Outcome: status.Unknown}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
