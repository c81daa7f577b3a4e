package flows

import (
	"context"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/flowverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// ListFlowAcls lists the rights on a flow that were granted.
func (s *Service) ListFlowAcls(ctx context.Context, req *v1.ListFlowAclsRequest) (*v1.ListFlowAclsResponse, error) {
	v, f, err := s.find(ctx, req.GetFlowId(), flows.ToAdmin)
	if err != nil {
		return nil, err
	}
	out := &v1.ListFlowAclsResponse{}
	for a := range v.FlowACLs(f.ID) {
		out.Acls = append(out.Acls, aclShown(a))
	}
	return out, nil
}

// CreateFlowAcl gives a user or a group a right on a flow. The names are not checked: the identity provider has them.
func (s *Service) CreateFlowAcl(ctx context.Context, req *v1.CreateFlowAclRequest) (*v1.CreateFlowAclResponse, error) {
	_, f, err := s.find(ctx, req.GetFlowId(), flows.ToAdmin)
	if err != nil {
		return nil, err
	}
	var faults call.Faults
	kind, ok := flows.ParsePrincipalType(req.GetPrincipalType())
	if !ok {
		faults.Bad("principal_type", "must be user or group")
	}
	right, ok := flows.ParseRight(req.GetLevel())
	if !ok {
		faults.Bad("level", "must be view, edit, deploy or admin")
	}
	if n := len(req.GetPrincipalId()); n == 0 || n > call.MaxIdentity {
		faults.Bad("principal_id", "must have 1 to %d bytes", call.MaxIdentity)
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	result, err := s.propose(ctx, flowverbs.PutACL{
		Flow: f.ID, Caller: f.caller, PrincipalType: kind, Principal: req.GetPrincipalId(), Right: right, Actor: call.Of(ctx).Actor(),
	})
	if err != nil {
		return nil, err
	}
	return &v1.CreateFlowAclResponse{Acl: aclShown(result.ACL)}, nil
}

// UpdateFlowAcl gives the user or the group of a right another one.
func (s *Service) UpdateFlowAcl(ctx context.Context, req *v1.UpdateFlowAclRequest) (*v1.UpdateFlowAclResponse, error) {
	_, f, err := s.find(ctx, req.GetFlowId(), flows.ToAdmin)
	if err != nil {
		return nil, err
	}
	right, ok := flows.ParseRight(req.GetLevel())
	if !ok {
		return nil, call.Bad("level", "must be view, edit, deploy or admin")
	}
	id, ok := ident.ParseFlowACL(req.GetAclId())
	if !ok {
		return nil, call.Refused(kernel.Refuse(kernel.CodeNotFound, reason.NoFlowRight, call.Clip(req.GetAclId(), 64)))
	}
	result, err := s.propose(ctx, flowverbs.PutACL{Flow: f.ID, Caller: f.caller, ACL: id, Right: right, Actor: call.Of(ctx).Actor()})
	if err != nil {
		return nil, err
	}
	return &v1.UpdateFlowAclResponse{Acl: aclShown(result.ACL)}, nil
}

// DeleteFlowAcl takes a right on a flow away.
func (s *Service) DeleteFlowAcl(ctx context.Context, req *v1.DeleteFlowAclRequest) (*v1.DeleteFlowAclResponse, error) {
	_, f, err := s.find(ctx, req.GetFlowId(), flows.ToAdmin)
	if err != nil {
		return nil, err
	}
	id, ok := ident.ParseFlowACL(req.GetAclId())
	if !ok {
		return nil, call.Refused(kernel.Refuse(kernel.CodeNotFound, reason.NoFlowRight, call.Clip(req.GetAclId(), 64)))
	}
	if _, err := s.propose(ctx, flowverbs.DeleteACL{Flow: f.ID, ACL: id, Caller: f.caller, Actor: call.Of(ctx).Actor()}); err != nil {
		return nil, err
	}
	return &v1.DeleteFlowAclResponse{}, nil
}
