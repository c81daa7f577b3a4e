package recovery

import (
	"context"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"google.golang.org/grpc/codes"
)

// DescribeReplica says what another coordinator of the list must know that has no data. It is answered before there is any
// data here, too.
func (s *Service) DescribeReplica(_ context.Context, req *v1.DescribeReplicaRequest) (*v1.DescribeReplicaResponse, error) {
	out := &v1.DescribeReplicaResponse{CoordinatorId: s.replica.ID()}
	if !s.replica.Opened() {
		if out.State = v1.ReplicaState_Value(s.beginning.state.Load()); out.State == v1.ReplicaState_UNSPECIFIED {
			return nil, call.Errorf(codes.Unavailable, "%s is starting", s.replica.ID())
		}
		return out, nil
	}
	stats := s.replica.Raft().Stats()
	// The first entry is the list of voters that a cluster begins with.
	if out.State = v1.ReplicaState_USED; stats.LastIndex <= 1 && stats.LeaderID == "" {
		out.State = v1.ReplicaState_FRESH
	}
	peers := s.replica.Raft().Peers()
	if len(peers) == 0 {
		// It waits to be joined itself.
		out.State = v1.ReplicaState_EMPTY
	}
	out.Leader, out.Current = stats.LeaderID, s.unready(stats) == ""
	for _, p := range peers {
		out.Member = out.Member || p.ID == req.GetCoordinatorId()
	}
	_, out.Known = s.replica.View().Coordinator(req.GetCoordinatorId())
	return out, nil
}
