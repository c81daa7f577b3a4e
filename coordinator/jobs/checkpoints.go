package jobs

import (
	"context"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work/checkpointverbs"
)

// GetCheckpoint shows one checkpoint of the caller's tenant.
func (s *Service) GetCheckpoint(ctx context.Context, req *v1.GetCheckpointRequest) (*v1.GetCheckpointResponse, error) {
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	id, ok := ident.ParseCheckpoint(req.GetCheckpointId())
	if !ok {
		return nil, call.NotFound("checkpoint", req.GetCheckpointId())
	}
	c, ok := v.Checkpoint(id)
	if !ok || c.Tenant != call.Of(ctx).Tenant {
		return nil, call.NotFound("checkpoint", req.GetCheckpointId())
	}
	return &v1.GetCheckpointResponse{Checkpoint: jobview.Checkpoint(c)}, nil
}

// DeleteCheckpoint removes a checkpoint from the state.
func (s *Service) DeleteCheckpoint(ctx context.Context, req *v1.DeleteCheckpointRequest) (*v1.DeleteCheckpointResponse, error) {
	id, ok := ident.ParseCheckpoint(req.GetCheckpointId())
	if !ok {
		return nil, call.NotFound("checkpoint", req.GetCheckpointId())
	}
	// The state would delete a pinned checkpoint, too. A pin at the same moment may come too late.
	if c, ok := s.state.View().Checkpoint(id); ok && c.Tenant == call.Of(ctx).Tenant && c.Pinned {
		return nil, call.Errorf(codes.FailedPrecondition, "checkpoint %s is pinned: unpin it first, with `mind checkpoint unpin %s`", id, id)
	}
	result, err := replica.Propose[checkpointverbs.CheckpointResult](ctx, s.state, checkpointverbs.DeleteCheckpoint{Tenant: call.Of(ctx).Tenant, ID: id, Actor: call.Of(ctx).Actor()})
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, call.Refused(result.Refusal)
	}
	return &v1.DeleteCheckpointResponse{}, nil
}

// PinCheckpoint keeps a checkpoint, whatever the retention of its job says.
func (s *Service) PinCheckpoint(ctx context.Context, req *v1.PinCheckpointRequest) (*v1.PinCheckpointResponse, error) {
	c, err := s.pin(ctx, req.GetCheckpointId(), true)
	return &v1.PinCheckpointResponse{Checkpoint: c}, err
}

// UnpinCheckpoint undoes PinCheckpoint.
func (s *Service) UnpinCheckpoint(ctx context.Context, req *v1.UnpinCheckpointRequest) (*v1.UnpinCheckpointResponse, error) {
	c, err := s.pin(ctx, req.GetCheckpointId(), false)
	return &v1.UnpinCheckpointResponse{Checkpoint: c}, err
}

func (s *Service) pin(ctx context.Context, text string, on bool) (*v1.Checkpoint, error) {
	id, ok := ident.ParseCheckpoint(text)
	if !ok {
		return nil, call.NotFound("checkpoint", text)
	}
	command := checkpointverbs.PinCheckpoint{Tenant: call.Of(ctx).Tenant, ID: id, Off: !on, Actor: call.Of(ctx).Actor()}
	result, err := replica.Propose[checkpointverbs.CheckpointResult](ctx, s.state, command)
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	return jobview.Checkpoint(result.Checkpoint), nil
}

// ListCheckpoints lists the checkpoints of a job, newest first.
func (s *Service) ListCheckpoints(ctx context.Context, req *v1.ListCheckpointsRequest) (*v1.ListCheckpointsResponse, error) {
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	j, err := call.Of(ctx).Job(v, req.GetJobId())
	if err != nil {
		return nil, err
	}
	out := &v1.ListCheckpointsResponse{}
	for checkpoint := range v.CheckpointsOf(j.ID) {
		out.Checkpoints = append(out.Checkpoints, jobview.Checkpoint(checkpoint))
	}
	return out, nil
}
