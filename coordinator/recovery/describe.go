package recovery

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/level"
)

// DescribeReplica tells another coordinator of the list, which has no data, what it must know to start. It is served
// even while this coordinator has no data.
func (s *Service) DescribeReplica(ctx context.Context, req *v1.DescribeReplicaRequest) (*v1.DescribeReplicaResponse, error) {
	supported := level.Supported()
	out := &v1.DescribeReplicaResponse{
		CoordinatorId: s.replica.ID(), OldestLevel: uint32(supported.Oldest), NewestLevel: uint32(supported.Newest), Program: s.program,
	}
	if !s.replica.Opened() {
		if out.State = v1.ReplicaState_Value(s.beginning.state.Load()); out.State == v1.ReplicaState_UNSPECIFIED {
			return nil, call.Errorf(codes.Unavailable, "%s is starting", s.replica.ID())
		}
		return out, nil
	}
	stats := s.replica.Raft().Stats()
	// The first entry is the list of the first voters.
	if out.State = v1.ReplicaState_USED; stats.LastIndex <= 1 && stats.LeaderID == "" {
		out.State = v1.ReplicaState_FRESH
	}
	peers := s.replica.Raft().Peers()
	if len(peers) == 0 {
		// This coordinator waits to join a cluster itself.
		out.State = v1.ReplicaState_EMPTY
	}
	out.Leader, out.Term, out.LastIndex, out.AppliedIndex = stats.LeaderID, stats.Term, stats.LastIndex, stats.AppliedIndex
	out.StateIndex = s.replica.View().Index()
	if heard, term := s.replica.Raft().LostLeader(); !heard.IsZero() {
		out.LostTerm, out.LostNs = term, int64(time.Since(heard))
	}
	if req.GetFiguresOnly() || stats.LeaderID == "" || s.unready(stats) != "" {
		return out, nil
	}
	// A lagging replica may not know yet that the other one was a member, and must not deny it.
	ctx, cancel := context.WithTimeout(ctx, describeTime/2)
	defer cancel()
	v, err := s.replica.Read(ctx)
	if err != nil {
		return out, nil
	}
	out.Current = true
	for _, p := range s.replica.Raft().Peers() {
		out.Member = out.Member || p.ID == req.GetCoordinatorId()
	}
	_, out.Known = v.Coordinator(req.GetCoordinatorId())
	return out, nil
}
