package jobs

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/joblist"
	"github.com/mindcoordinator/mind/coordinator/jobview"
)

// GetJob answers from this replica.
func (s *Service) GetJob(ctx context.Context, req *v1.GetJobRequest) (*v1.GetJobResponse, error) {
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	j, err := call.Of(ctx).Job(v, req.GetJobId())
	if err != nil {
		return nil, err
	}
	out := jobview.Of(v, j, true)
	if at, ok := forecast.StartOf(s.forecasts.Job(ctx, v, j), j); ok {
		out.EstimatedStartAt = timestamppb.New(at)
	}
	return &v1.GetJobResponse{Job: out}, nil
}

// ListJobs lists the jobs of the caller's tenant. The page token fixes the order and the filter, and contains the last
// listed job, so that jobs that come and go meanwhile are neither repeated nor skipped.
func (s *Service) ListJobs(ctx context.Context, req *v1.ListJobsRequest) (*v1.ListJobsResponse, error) {
	q, err := joblist.Parse(req, "jobs")
	if err != nil {
		return nil, err
	}
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	found := q.Find(v, call.Of(ctx).Tenant)
	out := &v1.ListJobsResponse{NextPageToken: found.Next, TotalCount: found.Count(), TotalCountIsMinimum: !found.Exact}
	for _, j := range found.Jobs {
		out.Jobs = append(out.Jobs, jobview.Of(v, j, false))
	}
	return out, nil
}
