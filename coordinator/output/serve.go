package output

import (
	"context"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
)

// GetServedCheckpoint tells an agent which files of a checkpoint it has to serve to another node. A node gets only a
// checkpoint from which a task of its own resumes, or which it scores, and only from the node that registered it.
func (s *Service) GetServedCheckpoint(ctx context.Context, req *v1.GetServedCheckpointRequest) (*v1.GetServedCheckpointResponse, error) {
	if who := call.Of(ctx).Peer; s.tls && who.ID != req.GetNodeId() {
		return nil, call.Errorf(codes.PermissionDenied, "the certificate belongs to %q, but the request to %q", who.ID, req.GetNodeId())
	}
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	id, _ := ident.ParseCheckpoint(req.GetCheckpointId())
	c, ok := v.Checkpoint(id)
	switch {
	case !ok || c.Node != req.GetNodeId() || c.Digest == "" || c.Expired():
		return nil, call.Errorf(codes.NotFound, "node %s has not registered checkpoint %s, or it was given up", req.GetNodeId(), req.GetCheckpointId())
	case !needs(v, req.GetReaderNodeId(), c):
		return nil, call.Errorf(codes.PermissionDenied, "no task on node %s needs checkpoint %s", req.GetReaderNodeId(), req.GetCheckpointId())
	}
	return &v1.GetServedCheckpointResponse{TenantId: c.Tenant, JobId: c.Job.String(), Checkpoint: &v1.ResumePoint{
		CheckpointId: c.ID.String(), Path: c.Path, ManifestDigest: c.Digest, NodeId: c.Node, Step: c.Step, SizeBytes: c.SizeBytes,
	}}, nil
}

// needs reports whether a node has a task of the job that saved a checkpoint, or of one that resumes from it or scores
// it.
func needs(v *fsm.View, node string, c *checkpoints.Checkpoint) bool {
	for lease := range v.LeasesOn(node) {
		if lease.Job == c.Job {
			return true
		}
		if j, ok := v.Job(lease.Job); ok && j.Tenant == c.Tenant {
			for _, id := range j.Needs() {
				if id == c.ID {
					return true
				}
			}
		}
	}
	return false
}
