package taskservice

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/agent/taskfile"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// ReadTaskSeries returns the metric series of a task.
func (s *Service) ReadTaskSeries(_ context.Context, req *v1.ReadTaskSeriesRequest) (*v1.ReadTaskSeriesResponse, error) {
	if req.GetPoints() < 1 {
		return nil, status.Errorf(codes.InvalidArgument, "%d points of a series are none", req.GetPoints())
	}
	task, err := s.find(req.GetJobId(), req.GetAttempt(), req.GetRank())
	if err != nil {
		return nil, err
	}
	found, err := s.Series.Read(task.id, task.dir, req.GetNames(), int(req.GetPoints()))
	if err != nil {
		return nil, status.Errorf(codes.DataLoss, "read the history of a task's numbers: %v", taskfile.Cause(err))
	}
	for _, one := range found {
		one.Attempt, one.Rank = task.id.Attempt, task.id.Rank
	}
	return &v1.ReadTaskSeriesResponse{Series: found}, nil
}
