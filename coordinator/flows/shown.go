package flows

import (
	"context"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/flows"
)

func newestFirst[T any](oldestFirst []T) { slices.Reverse(oldestFirst) }

// summary is a flow for a list, for a caller with a right.
func summary(f *flows.Flow, right flows.Right) *v1.FlowSummary {
	return &v1.FlowSummary{
		Id: f.ID.String(), Name: f.Name, Description: f.Description, OwnerId: f.Owner, TenantId: f.Tenant, Version: f.Version,
		CreatedAt: call.Time(f.CreatedAt), UpdatedAt: call.Time(f.UpdatedAt), Level: right.String(),
	}
}

// detail is a flow with the content of a version, for a caller with a right.
func (s *Service) detail(ctx context.Context, f *flows.Flow, right flows.Right, row *flows.Version) (*v1.FlowDetail, error) {
	content, err := s.content(ctx, f.Tenant, row)
	if err != nil {
		return nil, err
	}
	return &v1.FlowDetail{
		Id: f.ID.String(), Name: f.Name, Description: f.Description, OwnerId: f.Owner, TenantId: f.Tenant, Version: row.Name,
		CreatedAt: call.Time(f.CreatedAt), UpdatedAt: call.Time(f.UpdatedAt), Level: right.String(), Content: content,
	}, nil
}

// versionShown is a version without its content.
func versionShown(v *flows.Version) *v1.FlowVersion {
	return &v1.FlowVersion{
		Version: v.Name, Sha256: v.Content.Digest, SizeBytes: int64(v.Content.Size), CreatedBy: v.User, CreatedAt: call.Time(v.CreatedAt),
	}
}

func deploymentShown(v *fsm.View, d *flows.Deployment) *v1.FlowDeployment {
	out := &v1.FlowDeployment{
		DeploymentId: d.ID.String(), FlowId: d.Flow.String(), Version: d.Version, CoreId: d.Core.String(), CoreVersion: int32(d.CoreVersion),
		DeployedBy: d.User, DeployedAt: call.Time(d.At),
	}
	if c, ok := v.Core(d.Core); ok {
		out.CoreSlug = c.Slug
	}
	if d.PublishedSlug != "" {
		out.PublishedSlug = &d.PublishedSlug
	}
	return out
}

func aclShown(a *flows.ACL) *v1.FlowAcl {
	return &v1.FlowAcl{
		Id: a.ID.String(), FlowId: a.Flow.String(), PrincipalType: a.PrincipalType.String(), PrincipalId: a.Principal, Level: a.Right.String(),
		GrantedBy: a.GrantedBy, GrantedAt: call.Time(a.GrantedAt),
	}
}
