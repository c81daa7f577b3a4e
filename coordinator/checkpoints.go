package coordinator

import (
	"context"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
)

// GetCheckpoint shows one checkpoint of the caller's tenant.
func (s *server) GetCheckpoint(ctx context.Context, req *v1.GetCheckpointRequest) (*v1.GetCheckpointResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	id, ok := fsm.ParseCheckpointID(req.GetCheckpointId())
	if !ok {
		return nil, call.NotFound("checkpoint", req.GetCheckpointId())
	}
	c, ok := v.Checkpoint(id)
	if !ok || c.Tenant != call.Of(ctx).Tenant {
		return nil, call.NotFound("checkpoint", req.GetCheckpointId())
	}
	return &v1.GetCheckpointResponse{Checkpoint: checkpointView(c)}, nil
}

// DeleteCheckpoint takes one out of the state.
func (s *server) DeleteCheckpoint(ctx context.Context, req *v1.DeleteCheckpointRequest) (*v1.DeleteCheckpointResponse, error) {
	id, ok := fsm.ParseCheckpointID(req.GetCheckpointId())
	if !ok {
		return nil, call.NotFound("checkpoint", req.GetCheckpointId())
	}
	result, err := replica.Propose[fsm.CheckpointResult](ctx, s.replica, fsm.DeleteCheckpoint{Tenant: call.Of(ctx).Tenant, ID: id, Actor: call.Of(ctx).Actor()})
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, result.Refusal
	}
	return &v1.DeleteCheckpointResponse{}, nil
}
