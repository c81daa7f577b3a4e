package jobs

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/explain"
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

// ExplainJob explains why a job has its status.
func (s *Service) ExplainJob(ctx context.Context, req *v1.ExplainJobRequest) (*v1.ExplainJobResponse, error) {
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	j, err := call.Of(ctx).Job(v, req.GetJobId())
	if err != nil {
		return nil, err
	}
	seen := jobview.Of(v, j, true)
	out := &v1.ExplainJobResponse{JobId: seen.JobId, State: j.State, Status: seen.Status, Reason: seen.Reason, QueuePosition: seen.QueuePosition}
	if j.State == v1.JobState_QUEUED {
		foreseen := s.forecasts.Job(ctx, v, j)
		out.Details = forecast.Explain(foreseen, j)
		if at, ok := forecast.StartOf(foreseen, j); ok {
			out.EstimatedStartAt = timestamppb.New(at)
		}
		out.StartsAfter = forecast.After(foreseen, j)
	}
	out.Details = append(out.Details, jobview.Explain(v, j)...)
	out.Obstacles = explain.Obstacles(v, j, jobview.Said(v, j))
	if len(req.GetWhatIf()) > 0 {
		out.WhatIf, err = s.explainer.WhatIf(ctx, v, j, req.GetWhatIf())
		return out, err
	}
	if req.Remedies == nil || req.GetRemedies() {
		looked := false
		out.Remedies, looked = s.explainer.Remedies(ctx, v, j)
		out.RemediesOmitted = !looked
	}
	return out, nil
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
