package coordinator

import (
	"context"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// GetCheckpoint shows one checkpoint of the caller's tenant.
func (s *server) GetCheckpoint(ctx context.Context, req *v1.GetCheckpointRequest) (*v1.GetCheckpointResponse, error) {
	v, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	id, ok := fsm.ParseCheckpointID(req.GetCheckpointId())
	if !ok {
		return nil, notFound("checkpoint", req.GetCheckpointId())
	}
	c, ok := v.Checkpoint(id)
	if !ok || c.Tenant != callOf(ctx).tenant {
		return nil, notFound("checkpoint", req.GetCheckpointId())
	}
	return &v1.GetCheckpointResponse{Checkpoint: checkpointView(c)}, nil
}

// DeleteCheckpoint takes one out of the state.
func (s *server) DeleteCheckpoint(ctx context.Context, req *v1.DeleteCheckpointRequest) (*v1.DeleteCheckpointResponse, error) {
	id, ok := fsm.ParseCheckpointID(req.GetCheckpointId())
	if !ok {
		return nil, notFound("checkpoint", req.GetCheckpointId())
	}
	result, err := propose[fsm.CheckpointResult](ctx, s, fsm.DeleteCheckpoint{Tenant: callOf(ctx).tenant, ID: id, Actor: callOf(ctx).actor()})
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, result.Refusal
	}
	return &v1.DeleteCheckpointResponse{}, nil
}
