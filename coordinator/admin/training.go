package admin

import (
	"context"
	"time"

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

// GetNodeTraining asks a node's agent what the node can train. If the agent cannot be asked, the answer says so.
func (s *Service) GetNodeTraining(ctx context.Context, req *v1.GetNodeTrainingRequest) (*v1.GetNodeTrainingResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	n, ok := v.Node(req.GetNodeId())
	if !ok {
		return nil, call.NotFound("node", req.GetNodeId())
	}
	found := s.askDoctor(ctx, n)
	found.NodeId = n.ID
	return &v1.GetNodeTrainingResponse{Training: found}, ctx.Err()
}

// doctorPatience is how long a call waits for a node whose examination has not finished. The examination goes on, and
// the next call gets its result.
const doctorPatience = 4 * time.Second

func (s *Service) askDoctor(ctx context.Context, n *work.Node) *v1.NodeTraining {
	problem := func(why string) *v1.NodeTraining { return &v1.NodeTraining{Problem: why} }
	if n.GRPCAddr == "" || n.State == v1.NodeState_UNREACHABLE || n.State == v1.NodeState_LOST {
		return problem("the node is not connected to the coordinators")
	}
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	conn, err := s.agents.To(n.GRPCAddr)
	var answer *v1.ReadTrainingResponse
	if err == nil {
		answer, err = v1.NewTaskServiceClient(conn).ReadTraining(ctx, &v1.ReadTrainingRequest{})
	}
	switch {
	case grpcstatus.Code(err) == codes.Unimplemented:
		return problem("its agent's version does not look at trainings: upgrade it")
	case grpcstatus.Code(err) == codes.DeadlineExceeded || ctx.Err() != nil:
		return &v1.NodeTraining{Pending: true, Problem: "the node is still looking, which takes long the first time: ask again"}
	case err != nil:
		s.log.Warn("cannot ask a node what it can train", "node", n.ID, "error", err)
		return problem("the node did not answer")
	case answer.GetTraining() == nil:
		return problem("its agent has no answer")
	}
	return answer.GetTraining()
}
