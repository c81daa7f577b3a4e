package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// neededTime limits one question to a coordinator.
const neededTime = 30 * time.Second

// NeededOutputs asks the coordinators, one after the other, which outputs of some jobs are still needed.
func (s *Sessions) NeededOutputs(ctx context.Context, jobs []string) (out *v1.GetNeededOutputsResponse, err error) {
	err = s.anyCoordinator(ctx, func(ctx context.Context, c v1.AgentServiceClient) (err error) {
		out, err = c.GetNeededOutputs(ctx, &v1.GetNeededOutputsRequest{NodeId: s.cfg.Node, JobIds: jobs})
		return err
	})
	return out, err
}

// ServedCheckpoint asks the coordinators, one after the other, whether this node may serve a checkpoint to another
// node, and how the checkpoint was registered. A refusal of one coordinator is final; the error has its code.
func (s *Sessions) ServedCheckpoint(ctx context.Context, checkpoint, reader string) (out *v1.GetServedCheckpointResponse, err error) {
	var refused error
	err = s.anyCoordinator(ctx, func(ctx context.Context, c v1.AgentServiceClient) (err error) {
		out, err = c.GetServedCheckpoint(ctx, &v1.GetServedCheckpointRequest{NodeId: s.cfg.Node, CheckpointId: checkpoint, ReaderNodeId: reader})
		switch status.Code(err) {
		case codes.NotFound, codes.PermissionDenied:
			refused = err
			return nil
		}
		return err
	})
	switch {
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, status.Errorf(codes.Unavailable, "node %s cannot ask a coordinator: %v", s.cfg.Node, err)
	}
	return out, nil
}

// RecordDenials reports denials of this agent to the coordinators.
func (s *Sessions) RecordDenials(ctx context.Context, denials []*v1.Denial) error {
	return s.anyConnection(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := v1.NewAuditServiceClient(conn).RecordDenials(ctx, &v1.RecordDenialsRequest{Denials: denials})
		return err
	})
}

// anyCoordinator calls ask for one coordinator after the other, until it succeeds.
func (s *Sessions) anyCoordinator(ctx context.Context, ask func(context.Context, v1.AgentServiceClient) error) error {
	return s.anyConnection(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		return ask(ctx, v1.NewAgentServiceClient(conn))
	})
}

func (s *Sessions) anyConnection(ctx context.Context, ask func(context.Context, *grpc.ClientConn) error) error {
	var faults []error
	for _, addr := range s.cfg.Coordinators {
		err := s.coordinator(ctx, addr, ask)
		if err == nil {
			return nil
		}
		faults = append(faults, fmt.Errorf("%s: %w", addr, err))
	}
	return errors.Join(faults...)
}

func (s *Sessions) coordinator(ctx context.Context, addr string, ask func(context.Context, *grpc.ClientConn) error) error {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(s.cfg.Credentials), grpc.WithContextDialer(s.cfg.Network.Dial))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, neededTime)
	defer cancel()
	return ask(ctx, conn)
}
