// Package flows implements FlowService: the programs that people draw, their versions, and the rights on them, for the callers of a
// tenant.
//
// Guarantees. A flow on which the caller has no right is not found, and so is one of another tenant. A content is saved only over the
// version that it was made from. Content that is equal as JSON is the same version, whatever its id and version say. With an archive, a
// content leaves the state only after it was written there and read back; a content that is shown has the digest that was saved.
package flows

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/flowverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// State is the state of the cluster as this replica has it, and the way to change it.
type State interface {
	replica.Proposer
	View() *fsm.View
	// Read waits until the state has all writes that were acknowledged before the call, unless the call asked for stale.
	Read(ctx context.Context) (*fsm.View, error)
}

// Config configures a Service.
type Config struct {
	State   State
	Cores   Cores
	Archive Archive
	Log     *slog.Logger
}

// Service implements FlowService.
type Service struct {
	v1.UnimplementedFlowServiceServer

	Config
	store archive.Store // nil: the state keeps all contents
}

// New makes a Service.
func New(c Config) (*Service, error) {
	s := &Service{Config: c}
	if c.Archive.URL == "" {
		return s, nil
	}
	var err error
	if s.store, err = archive.Open(c.Archive.URL, c.Archive.Access); err != nil {
		return nil, fmt.Errorf("flow archive: %w", err)
	}
	return s, nil
}

// callerOf is the caller with all groups.
func callerOf(ctx context.Context) flows.Caller {
	by := call.Of(ctx)
	c := flows.Caller{Tenant: by.Tenant, User: by.User, Admin: by.Operator}
	for _, m := range by.Member {
		if group, ok := strings.CutPrefix(m, "group:"); ok {
			c.Groups = append(c.Groups, group)
		}
	}
	return c
}

// target is a flow that a call is about, with its caller and the caller's right.
type target struct {
	*flows.Flow
	right flows.Right
	// caller has the groups that have a right on the flow, so that a command has no others.
	caller flows.Caller
}

// find finds a flow on which the caller has a right.
func (s *Service) find(ctx context.Context, text string, need flows.Right) (*fsm.View, *target, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	caller := callerOf(ctx)
	id, _ := ident.ParseFlow(text)
	f, _ := v.Flow(id)
	right := v.RightOn(f, caller)
	switch {
	case right == flows.None:
		return nil, nil, call.Refused(kernel.Refuse(kernel.CodeNotFound, reason.NoFlow, call.Clip(text, 64)))
	case right < need:
		return nil, nil, call.Refused(kernel.Refuse(kernel.CodePermissionDenied, reason.FlowNeedsRight, f.Name, need.String(), right.String()))
	}
	t := &target{Flow: f, right: right, caller: caller}
	t.caller.Groups = nil
	for a := range v.FlowACLs(f.ID) {
		if a.PrincipalType == flows.Group {
			for _, g := range caller.Groups {
				if g == a.Principal {
					t.caller.Groups = append(t.caller.Groups, g)
				}
			}
		}
	}
	return v, t, nil
}

// propose proposes a command about a flow. A refusal is an error.
func (s *Service) propose(ctx context.Context, c kernel.Command) (flowverbs.Result, error) {
	result, err := replica.Propose[flowverbs.Result](ctx, s.State, c)
	switch {
	case err != nil:
		return result, err
	case result.Refusal != nil:
		return result, call.Refused(result.Refusal)
	}
	return result, nil
}

const (
	defaultLimit = 100
	maxLimit     = 1000
)

// ListFlows lists the flows on which the caller has a right, the newest first.
func (s *Service) ListFlows(ctx context.Context, req *v1.ListFlowsRequest) (*v1.ListFlowsResponse, error) {
	limit := int(req.GetLimit())
	switch {
	case limit == 0:
		limit = defaultLimit
	case limit < 0 || limit > maxLimit:
		return nil, call.Bad("limit", "must be 1 to %d", maxLimit)
	case req.GetOffset() < 0:
		return nil, call.Bad("offset", "must be 0 or more")
	}
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	caller, search := callerOf(ctx), strings.ToLower(req.GetSearch())
	out := &v1.ListFlowsResponse{}
	for f := range v.FlowsOf(caller.Tenant) {
		if !strings.Contains(strings.ToLower(f.Name), search) {
			continue
		}
		right := v.RightOn(f, caller)
		if right == flows.None {
			continue
		}
		if out.Total++; out.GetTotal() > req.GetOffset() && len(out.GetItems()) < limit {
			out.Items = append(out.Items, summary(f, right))
		}
	}
	return out, nil
}

// GetFlow shows a flow with the content of a version.
func (s *Service) GetFlow(ctx context.Context, req *v1.GetFlowRequest) (*v1.GetFlowResponse, error) {
	need := flows.ToView
	if req.GetLevel() != "" {
		var ok bool
		if need, ok = flows.ParseRight(req.GetLevel()); !ok {
			return nil, call.Bad("level", "must be view, edit, deploy or admin")
		}
	}
	v, f, err := s.find(ctx, req.GetFlowId(), need)
	if err != nil {
		return nil, err
	}
	row, err := version(v, f.Flow, req.GetVersion())
	if err != nil {
		return nil, err
	}
	shown, err := s.detail(ctx, f.Flow, f.right, row)
	return &v1.GetFlowResponse{Flow: shown}, err
}

// version finds a version of a flow; empty: the current one.
func version(v *fsm.View, f *flows.Flow, name string) (*flows.Version, error) {
	if name == "" {
		name = f.Version
	}
	for row := range v.FlowVersions(f.ID) {
		if row.Name == name {
			return row, nil
		}
	}
	return nil, call.Refused(kernel.Refuse(kernel.CodeNotFound, reason.NoFlowVersion, f.Name, call.Clip(name, 64)))
}

// ListFlowVersions lists the versions of a flow, the newest first.
func (s *Service) ListFlowVersions(ctx context.Context, req *v1.ListFlowVersionsRequest) (*v1.ListFlowVersionsResponse, error) {
	v, f, err := s.find(ctx, req.GetFlowId(), flows.ToView)
	if err != nil {
		return nil, err
	}
	out := &v1.ListFlowVersionsResponse{}
	for row := range v.FlowVersions(f.ID) {
		out.Items = append(out.Items, versionShown(row))
	}
	newestFirst(out.GetItems())
	out.Total = int32(len(out.GetItems()))
	return out, nil
}

// GetFlowVersion shows a version of a flow with its content.
func (s *Service) GetFlowVersion(ctx context.Context, req *v1.GetFlowVersionRequest) (*v1.GetFlowVersionResponse, error) {
	v, f, err := s.find(ctx, req.GetFlowId(), flows.ToView)
	if err != nil {
		return nil, err
	}
	if req.GetVersion() == "" {
		return nil, call.Bad("version", "is missing")
	}
	row, err := version(v, f.Flow, req.GetVersion())
	if err != nil {
		return nil, err
	}
	out := versionShown(row)
	out.Content, err = s.content(ctx, f.Tenant, row)
	return &v1.GetFlowVersionResponse{Version: out}, err
}

// ListFlowDeployments lists the deployments of a flow, the newest first.
func (s *Service) ListFlowDeployments(ctx context.Context, req *v1.ListFlowDeploymentsRequest) (*v1.ListFlowDeploymentsResponse, error) {
	v, f, err := s.find(ctx, req.GetFlowId(), flows.ToView)
	if err != nil {
		return nil, err
	}
	out := &v1.ListFlowDeploymentsResponse{}
	for row := range v.FlowDeployments(f.ID) {
		out.Items = append(out.Items, deploymentShown(v, row))
	}
	newestFirst(out.GetItems())
	out.Total = int32(len(out.GetItems()))
	return out, nil
}
