package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// neededTime bounds one question to a coordinator.
const neededTime = 30 * time.Second

// NeededOutputs asks the coordinators, one after the other, which outputs of some jobs are still needed.
func (s *Sessions) NeededOutputs(ctx context.Context, jobs []string) (*v1.GetNeededOutputsResponse, error) {
	var faults []error
	for _, addr := range s.cfg.Coordinators {
		out, err := s.neededOutputsFrom(ctx, addr, jobs)
		if err == nil {
			return out, nil
		}
		faults = append(faults, fmt.Errorf("%s: %w", addr, err))
	}
	return nil, errors.Join(faults...)
}

func (s *Sessions) neededOutputsFrom(ctx context.Context, addr string, jobs []string) (*v1.GetNeededOutputsResponse, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(s.cfg.Credentials), grpc.WithContextDialer(s.cfg.Network.Dial))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, neededTime)
	defer cancel()
	return v1.NewAgentServiceClient(conn).GetNeededOutputs(ctx, &v1.GetNeededOutputsRequest{NodeId: s.cfg.Node, JobIds: jobs})
}
