package jobs

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// maxBatch is the largest number of jobs in one SubmitJobs.
const maxBatch = 1000

// accepted returns the answer to a submit. A repeated submit gets the same answer.
func accepted(id ident.Job) *v1.SubmitJobResponse {
	return &v1.SubmitJobResponse{JobId: id.String(), Status: v1.JobStatus_PENDING, Message: "accepted"}
}

// SubmitJob runs on the leader only, like every write here: the interceptor has forwarded it.
func (s *Service) SubmitJob(ctx context.Context, req *v1.SubmitJobRequest) (*v1.SubmitJobResponse, error) {
	job, err := s.admission.Job(ctx, req, call.Of(ctx).Key)
	if err != nil {
		return nil, err
	}
	result, err := replica.Propose[jobverbs.SubmitJobsResult](ctx, s.state, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{job}, Actor: call.Of(ctx).Submitter()})
	if err != nil {
		return nil, err
	}
	if r := result.Results[0].Refusal; r != nil {
		return nil, call.Refused(r)
	}
	out := accepted(result.Results[0].Job)
	out.EstimatedWaitSeconds = s.forecasts.Waits(ctx, s.state.View(), call.Of(ctx).Tenant)(result.Results[0].Job)
	return out, nil
}

// SubmitJobs submits the valid jobs of a batch, in one entry if they fit; each job has its own result.
func (s *Service) SubmitJobs(ctx context.Context, req *v1.SubmitJobsRequest) (*v1.SubmitJobsResponse, error) {
	c := call.Of(ctx)
	switch {
	case len(req.GetJobs()) == 0:
		return nil, call.Bad("jobs", "is empty: send at least one job")
	case len(req.GetJobs()) > maxBatch:
		return nil, call.Bad("jobs", "has %d jobs; at most %d are allowed per call", len(req.GetJobs()), maxBatch)
	case len(req.GetIdempotencyKeys()) != 0 && len(req.GetIdempotencyKeys()) != len(req.GetJobs()):
		return nil, call.Bad("idempotency_keys", "has %d keys for %d jobs: give one for each job, or none", len(req.GetIdempotencyKeys()), len(req.GetJobs()))
	}
	if n := len(req.GetRequestIds()); n != 0 && n != len(req.GetJobs()) {
		return nil, call.Bad("request_ids", "has %d ids for %d jobs: give one for each job, or none", n, len(req.GetJobs()))
	}
	results := make([]*v1.SubmitJobResult, len(req.GetJobs()))
	var (
		part  batch
		first error
	)
	sent := 0
	flush := func() {
		if len(part.jobs) == 0 {
			return
		}
		if err := s.submitPart(ctx, part, results); err != nil {
			if sent == 0 && first == nil {
				first = err
			}
			for _, i := range part.places {
				results[i] = resultOf(err)
			}
		} else {
			sent++
		}
		part = batch{}
	}
	for i, one := range req.GetJobs() {
		key := ""
		switch {
		case len(req.GetIdempotencyKeys()) > 0 && req.GetIdempotencyKeys()[i] != "":
			key = req.GetIdempotencyKeys()[i]
		case c.Key != "":
			key = fmt.Sprintf("%s/%d", c.Key, i)
		}
		job, err := s.admission.Job(ctx, one, key)
		if len(req.GetRequestIds()) > 0 {
			job.Request = req.GetRequestIds()[i]
		}
		if len(key) > call.MaxKey {
			err = call.Bad("idempotency_keys", "a key must have at most %d bytes", call.MaxKey)
		}
		if err != nil {
			results[i] = resultOf(err)
			continue
		}
		if part.bytes += len(job.Spec) + len(job.Credentials) + jobOverhead; part.bytes > s.entryBytes && len(part.jobs) > 0 {
			flush()
			part.bytes = len(job.Spec) + len(job.Credentials) + jobOverhead
		}
		part.jobs, part.places = append(part.jobs, job), append(part.places, i)
	}
	flush()
	// If no job was submitted, the whole call failed, and may be repeated.
	if first != nil && sent == 0 {
		return nil, first
	}
	return &v1.SubmitJobsResponse{Results: results}, nil
}

// jobOverhead is about the size of a job in an entry without its spec.
const jobOverhead = 256

// batch is a part of a SubmitJobs that is sent in one entry; places are the positions of its jobs in the request.
type batch struct {
	jobs   []jobverbs.NewJob
	places []int
	bytes  int
}

func (s *Service) submitPart(ctx context.Context, part batch, results []*v1.SubmitJobResult) error {
	answer, err := replica.Propose[jobverbs.SubmitJobsResult](ctx, s.state, jobverbs.SubmitJobs{Jobs: part.jobs, Actor: call.Of(ctx).Submitter()})
	if err != nil {
		return err
	}
	wait := s.forecasts.Waits(ctx, s.state.View(), call.Of(ctx).Tenant)
	for n, r := range answer.Results {
		if r.Refusal != nil {
			results[part.places[n]] = resultOf(call.Refused(r.Refusal))
		} else {
			job := accepted(r.Job)
			job.EstimatedWaitSeconds = wait(r.Job)
			results[part.places[n]] = &v1.SubmitJobResult{Job: job}
		}
	}
	return nil
}

func resultOf(err error) *v1.SubmitJobResult {
	code, message, reason := codes.Internal, err.Error(), ""
	var f *call.Failure
	if errors.As(call.ToStatus(err), &f) {
		code, message = f.Code, f.Message
		if f.Outcome == status.QuotaExceeded {
			reason = f.Outcome
		}
	}
	return &v1.SubmitJobResult{Code: int32(code), Message: message, Reason: reason}
}
