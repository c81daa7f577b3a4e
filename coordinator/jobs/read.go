package jobs

import (
	"context"

	"google.golang.org/protobuf/proto"
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
	fields, err := jobFields(req.GetFields())
	if err != nil {
		return nil, err
	}
	q, err := joblist.Parse(req, "jobs", call.Of(ctx).User)
	if err != nil {
		return nil, err
	}
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	tenant := call.Of(ctx).Tenant
	found, err := q.Find(v, tenant)
	if err != nil {
		return nil, err
	}
	out, size := &v1.ListJobsResponse{}, 0
	for i, j := range found.Jobs {
		row := jobview.Of(v, j, false)
		fields.only(row)
		if size += proto.Size(row) + fields.names + taskBytes*len(row.GetTasks()); i > 0 && size > maxPageBytes {
			q.Cut(&found, i)
			break
		}
		out.Jobs = append(out.Jobs, row)
	}
	out.NextPageToken, out.TotalCount, out.TotalCountIsMinimum = found.Next, found.Count(), !found.Exact
	if req.GetFacets() {
		out.Facets = q.Facets(v, tenant)
	}
	return out, nil
}
