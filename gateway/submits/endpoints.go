package submits

import (
	"context"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Uploads says whether the files that jobs need have arrived.
type Uploads interface {
	// Confirm refuses a job whose upload is not complete.
	Confirm(ctx context.Context, x *rest.Request, job *v1.SubmitJobRequest) error
	// ConfirmAll refuses such jobs of a batch: their items get the faults, and the request is left with the others.
	ConfirmAll(ctx context.Context, x *rest.Request, batch *wire.Batch) error
}

// Handlers serve the paths on which jobs are submitted.
type Handlers struct {
	jobs    v1.JobServiceClient
	submits *Submits
	uploads Uploads
}

// NewHandlers returns handlers that send jobs to coordinators.
func NewHandlers(jobs v1.JobServiceClient, uploads Uploads) *Handlers {
	return &Handlers{jobs: jobs, submits: New(jobs), uploads: uploads}
}

// Endpoints are those of submits.
func (h *Handlers) Endpoints() []rest.Endpoint {
	return []rest.Endpoint{
		{RPC: v1.JobService_SubmitJob_FullMethodName, Serve: h.submitJob, Doc: openapi.Operation{In: &v1.SubmitJobRequest{}, Out: &v1.SubmitJobResponse{}}},
		{RPC: v1.JobService_SubmitJobs_FullMethodName, Serve: h.submitBatch, Doc: openapi.Operation{
			InSchema:  openapi.Object{"type": "object", "required": []string{"jobs"}, "properties": openapi.Object{"jobs": openapi.List(openapi.Object{"$ref": "#/components/schemas/SubmitJobRequest"})}},
			OutSchema: openapi.Object{"type": "object", "properties": openapi.Object{"results": openapi.List(openapi.Anything), "accepted": openapi.Integer(0, 1000), "refused": openapi.Integer(0, 1000)}},
		}},
	}
}

func (h *Handlers) submitJob(x *rest.Request) error {
	request := &v1.SubmitJobRequest{}
	ignored, err := decodeJob(x, request)
	if err != nil {
		return err
	}
	call, limit, err := x.Prepare()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.R.Context(), limit)
	defer cancel()
	if err := h.uploads.Confirm(ctx, x, request); err != nil {
		return err
	}
	var reply *v1.SubmitJobResponse
	// Jobs with their own tokens cannot share a call, which carries one of each.
	own := call.DriveToken != "" || call.AtlasToken != ""
	if own || x.R.ContentLength > MaxBytes || x.R.ContentLength < 0 || limit != x.Server.Timeouts.Request {
		reply, err = h.jobs.SubmitJob(client.WithCall(ctx, call), request)
	} else {
		reply, x.Answer, err = h.submits.Submit(ctx, call, request, limit)
	}
	if err != nil {
		return err
	}
	reply.Message = wire.WithIgnored(reply.Message, ignored)
	x.OK(reply)
	return nil
}

func decodeJob(x *rest.Request, request *v1.SubmitJobRequest) (ignored []string, err error) {
	body, err := x.Body()
	if err != nil {
		return nil, err
	}
	defer rest.Release(body)
	faults, ignored := wire.DecodeJob(*body, request)
	if len(faults) > 0 {
		return nil, rest.InvalidBody(faults)
	}
	return ignored, nil
}
