package cores

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/flow/machine"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// findDecision finds a decision of the caller's tenant. Another tenant's is not found.
func findDecision(ctx context.Context, v *fsm.View, text string) (*executions.Decision, error) {
	if id, ok := ident.ParseDecision(text); ok {
		if d, ok := v.Decision(id); ok && d.Tenant == call.Of(ctx).Tenant {
			return d, nil
		}
	}
	return nil, call.NotFound("checkpoint", text)
}

// ListDecisions lists the decisions of the caller's tenant, the newest first.
func (s *Service) ListDecisions(ctx context.Context, req *v1.ListDecisionsRequest) (*v1.ListDecisionsResponse, error) {
	most, err := limit(req.GetLimit())
	if err != nil {
		return nil, err
	}
	status, all := executions.Pending, req.GetStatus() == "all"
	if req.GetStatus() != "" && !all {
		var ok bool
		if status, ok = executions.ParseDecisionStatus(req.GetStatus()); !ok {
			return nil, call.Bad("status", "is %q: pending, resolved, expired, cancelled and all are allowed", call.Clip(req.GetStatus(), 64))
		}
	}
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	var core ident.Core
	if req.GetCoreId() != "" {
		c, err := find(ctx, v, req.GetCoreId())
		if err != nil {
			return nil, err
		}
		core = c.ID
	}
	before, ok := ident.ParseDecision(req.GetCursor())
	if req.GetCursor() != "" && !ok {
		return nil, call.Bad("cursor", "is not a next_cursor of a page")
	}
	out := &v1.ListDecisionsResponse{}
	looked := 0
	for d := range v.DecisionsOf(call.Of(ctx).Tenant, !all && status == executions.Pending, before) {
		if looked++; len(out.Checkpoints) == most || looked > maxLooked {
			out.NextCursor = ident.Decision(uint64(d.ID) + 1).String()
			break
		}
		if !all && d.Status != status || core != 0 && d.Core != core {
			continue
		}
		out.Checkpoints = append(out.Checkpoints, DecisionShown(v, d))
	}
	return out, nil
}

// GetDecision shows a decision.
func (s *Service) GetDecision(ctx context.Context, req *v1.GetDecisionRequest) (*v1.GetDecisionResponse, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	d, err := findDecision(ctx, v, req.GetCheckpointId())
	if err != nil {
		return nil, err
	}
	return &v1.GetDecisionResponse{Checkpoint: DecisionShown(v, d)}, nil
}

// ResolveDecision answers a decision in the name of the caller.
func (s *Service) ResolveDecision(ctx context.Context, req *v1.ResolveDecisionRequest) (*v1.ResolveDecisionResponse, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	d, err := findDecision(ctx, v, req.GetCheckpointId())
	if err != nil {
		return nil, err
	}
	by := call.Of(ctx)
	c := executionverbs.ResolveDecision{
		Decision: d.ID, Tenant: by.Tenant, User: by.User, Resolution: req.GetResolution(), Comment: req.GetComment(), Subject: req.GetSubjectDigest(),
		As: by.Member, Any: by.Operator, Actor: by.Actor(),
	}
	if len(d.Schema) > 0 {
		if c.Data, err = answerTo(d, req); err != nil {
			return nil, err
		}
	}
	result, err := s.decide(ctx, c)
	return &v1.ResolveDecisionResponse{Checkpoint: result}, err
}

// answerTo checks the answer to a decision that has a schema.
func answerTo(d *executions.Decision, req *v1.ResolveDecisionRequest) ([]byte, error) {
	if req.GetData() == nil {
		return nil, call.Bad("data", "is missing: the checkpoint asks for an answer of its schema")
	}
	if err := matches(d.Schema, req.GetData()); err != nil {
		return nil, call.Bad("data", "is not of the schema of the checkpoint: %v", err)
	}
	return machine.EncodeValue(programs.FromAPI(req.GetData()))
}

// CancelDecision takes a decision back.
func (s *Service) CancelDecision(ctx context.Context, req *v1.CancelDecisionRequest) (*v1.CancelDecisionResponse, error) {
	d, by, err := s.about(ctx, req.GetCheckpointId())
	if err != nil {
		return nil, err
	}
	result, err := s.decide(ctx, executionverbs.CancelDecision{
		Decision: d.ID, Tenant: by.Tenant, User: by.User, As: by.Member, Any: by.Operator, Reason: call.Clip(req.GetReason(), call.MaxReason), Actor: by.Actor(),
	})
	return &v1.CancelDecisionResponse{Checkpoint: result}, err
}

// ReassignDecision asks somebody else.
func (s *Service) ReassignDecision(ctx context.Context, req *v1.ReassignDecisionRequest) (*v1.ReassignDecisionResponse, error) {
	d, by, err := s.about(ctx, req.GetCheckpointId())
	if err != nil {
		return nil, err
	}
	switch err := executions.CheckAssignee(req.GetAssignee()); {
	case strings.TrimSpace(req.GetAssignee()) == "":
		return nil, call.Bad("assignee", "is missing: name user:ID, group:ID or role:NAME")
	case len(req.GetAssignee()) > call.MaxIdentity:
		return nil, call.Bad("assignee", "must have at most %d bytes", call.MaxIdentity)
	case err != nil:
		return nil, call.Bad("assignee", "%v", err)
	}
	result, err := s.decide(ctx, executionverbs.ReassignDecision{
		Decision: d.ID, Tenant: by.Tenant, User: by.User, As: by.Member, Any: by.Operator, Assignee: req.GetAssignee(), Actor: by.Actor(),
	})
	return &v1.ReassignDecisionResponse{Checkpoint: result}, err
}

func (s *Service) about(ctx context.Context, text string) (*executions.Decision, *call.Call, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	d, err := findDecision(ctx, v, text)
	return d, call.Of(ctx), err
}

func (s *Service) decide(ctx context.Context, c kernel.Command) (*v1.Decision, error) {
	result, err := replica.Propose[executionverbs.DecisionResult](ctx, s.State, c)
	switch {
	case err != nil:
		return nil, err
	case result.Refusal == nil:
		return DecisionShown(s.State.View(), result.Decision), nil
	case result.Refusal.Code == kernel.CodePermissionDenied:
		return nil, call.Errorf(codes.PermissionDenied, "%s", call.Refused(result.Refusal).Message)
	}
	return nil, call.Refused(result.Refusal)
}
