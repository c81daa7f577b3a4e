package output

import (
	"context"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// MaxNeededJobs limits the jobs of one call.
const MaxNeededJobs = 1000

// GetNeededOutputs tells an agent which outputs on its node it must keep: those of all unfinished jobs, and the registered
// checkpoints of the others.
func (s *Service) GetNeededOutputs(ctx context.Context, req *v1.GetNeededOutputsRequest) (*v1.GetNeededOutputsResponse, error) {
	if who := call.Of(ctx).Peer; s.tls && who.ID != req.GetNodeId() {
		return nil, call.Errorf(codes.PermissionDenied, "the certificate belongs to %q, but the request to %q", who.ID, req.GetNodeId())
	}
	if n := len(req.GetJobIds()); n > MaxNeededJobs {
		return nil, call.Bad("job_ids", "has %d entries; at most %d are allowed per call", n, MaxNeededJobs)
	}
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &v1.GetNeededOutputsResponse{}
	for _, text := range req.GetJobIds() {
		id, ok := ident.ParseJob(text)
		// The agent must not remove the output of an unknown job either.
		if j, there := v.Find(id); !ok || there && !j.Terminal() {
			out.UnfinishedJobIds = append(out.UnfinishedJobIds, text)
			continue
		}
		// For all nodes: they may share the file system of the outputs.
		for c := range v.CheckpointsOf(id) {
			if !c.Expired() {
				out.CheckpointPaths = append(out.CheckpointPaths, c.Path)
			}
		}
	}
	return out, nil
}
