package taskservice

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// ReadTraining returns which trainings can run on the node.
func (s *Service) ReadTraining(ctx context.Context, _ *v1.ReadTrainingRequest) (*v1.ReadTrainingResponse, error) {
	if s.Doctor == nil {
		return nil, status.Error(codes.Unimplemented, "this agent does not look at trainings")
	}
	found, err := s.Doctor.Ask(ctx)
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return &v1.ReadTrainingResponse{Training: found}, nil
}
