package admin

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Agents holds connections to the agents, by address.
type Agents interface {
	To(addr string) (*grpc.ClientConn, error)
}

// GetNodeTraining asks a node's agent what the node can train. That it cannot be asked is an answer, too.
func (s *Service) GetNodeTraining(ctx context.Context, req *v1.GetNodeTrainingRequest) (*v1.GetNodeTrainingResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	n, ok := v.Node(req.GetNodeId())
	if !ok {
		return nil, call.NotFound("node", req.GetNodeId())
	}
	found, problem := s.askDoctor(ctx, n)
	if problem != "" {
		found = &v1.NodeTraining{Problem: problem}
	}
	found.NodeId = n.ID
	return &v1.GetNodeTrainingResponse{Training: found}, ctx.Err()
}

func (s *Service) askDoctor(ctx context.Context, n *work.Node) (found *v1.NodeTraining, problem string) {
	if n.GRPCAddr == "" || n.State == v1.NodeState_UNREACHABLE || n.State == v1.NodeState_LOST {
		return nil, "the node is not connected to the coordinators"
	}
	conn, err := s.agents.To(n.GRPCAddr)
	var answer *v1.ReadTrainingResponse
	if err == nil {
		answer, err = v1.NewTaskServiceClient(conn).ReadTraining(ctx, &v1.ReadTrainingRequest{})
	}
	switch {
	case grpcstatus.Code(err) == codes.Unimplemented:
		return nil, "its agent's version does not look at trainings: upgrade it"
	case grpcstatus.Code(err) == codes.DeadlineExceeded || ctx.Err() != nil:
		return nil, "the node is still looking, which takes long the first time: ask again"
	case err != nil:
		s.log.Warn("cannot ask a node what it can train", "node", n.ID, "error", err)
		return nil, "the node did not answer"
	case answer.GetTraining() == nil:
		return nil, "its agent has no answer"
	}
	return answer.GetTraining(), ""
}
