package flows

import (
	"context"
	"net/http"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/flowverbs"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

const (
	maxName        = 128
	maxDescription = 4 << 10
)

// texts checks a name and a description.
func texts(name, description *string) error {
	var f call.Faults
	if name != nil && (*name == "" || len(*name) > maxName) {
		f.Bad("name", "must have 1 to %d bytes", maxName)
	}
	if name != nil {
		call.Plain(&f, "name", *name)
	}
	if description != nil && len(*description) > maxDescription {
		f.Bad("description", "must have at most %d bytes", maxDescription)
	}
	return f.Err()
}

// CreateFlow makes a flow with its first version. The caller owns it.
func (s *Service) CreateFlow(ctx context.Context, req *v1.CreateFlowRequest) (*v1.CreateFlowResponse, error) {
	name, description := req.GetName(), req.GetDescription()
	if err := texts(&name, &description); err != nil {
		return nil, err
	}
	if req.GetContent() == "" {
		return nil, call.Bad("content", "is missing: send the graph of the flow")
	}
	content, named, err := pack(req.GetContent())
	if err != nil {
		return nil, err
	}
	by := call.Of(ctx)
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(req) // It came in as a message, so it can go out as one.
	result, err := s.propose(ctx, flowverbs.PutFlow{
		Caller: callerWithoutGroups(ctx), Name: &name, Description: &description, Content: content, Version: firstVersion(named),
		Actor: by.Actor(), Key: keyOf(by), Fingerprint: xxhash.Sum64(text),
	})
	if err != nil {
		return nil, err
	}
	shown, err := s.current(ctx, result.Flow, flows.ToAdmin)
	return &v1.CreateFlowResponse{Flow: shown}, err
}

// callerWithoutGroups is the caller of a command that no group decides about.
func callerWithoutGroups(ctx context.Context) flows.Caller {
	c := callerOf(ctx)
	c.Groups = nil
	return c
}

// keyOf is the idempotency key of a call. Two users may use the same one.
func keyOf(by *call.Call) string {
	if by.Key == "" {
		return ""
	}
	return by.User + "\x00" + by.Key
}

// current is a flow with the content of its current version, as the command has left it.
func (s *Service) current(ctx context.Context, f *flows.Flow, right flows.Right) (*v1.FlowDetail, error) {
	row, ok := s.State.View().FlowVersion(f.ID, f.Number)
	if !ok {
		return nil, call.Refused(kernel.Refuse(kernel.CodeNotFound, reason.NoFlow, f.ID))
	}
	return s.detail(ctx, f, right, row)
}

// UpdateFlow changes the given fields of a flow. A content is saved only over the version that it was made from.
func (s *Service) UpdateFlow(ctx context.Context, req *v1.UpdateFlowRequest) (*v1.UpdateFlowResponse, error) {
	_, f, err := s.find(ctx, req.GetFlowId(), flows.ToEdit)
	if err != nil {
		return nil, err
	}
	if err := texts(req.Name, req.Description); err != nil {
		return nil, err
	}
	actor, basedOn := call.Of(ctx).Actor(), versionMeant(req.GetBasedOn(), "")
	var command kernel.Command = flowverbs.PutFlow{
		ID: f.ID, Caller: f.caller, Name: req.Name, Description: req.Description, Actor: actor, BasedOn: basedOn,
	}
	if req.GetContent() != "" {
		basedOn = versionMeant(req.GetBasedOn(), f.Version)
		content, _, err := pack(req.GetContent())
		if err != nil {
			return nil, err
		}
		command = flowverbs.SaveVersion{
			Flow: f.ID, Caller: f.caller, BasedOn: basedOn, Content: content, Name: req.Name, Description: req.Description, Actor: actor,
		}
	}
	result, fault, err := s.proposeOver(ctx, command, basedOn)
	if err != nil || fault != nil {
		return &v1.UpdateFlowResponse{Fault: fault}, err
	}
	shown, err := s.current(ctx, result.Flow, f.right)
	return &v1.UpdateFlowResponse{Flow: shown}, err
}

// versionMeant is the version that a change names; whatever: what "*" means.
func versionMeant(basedOn, whatever string) string {
	if basedOn == "*" {
		return whatever
	}
	return call.Clip(basedOn, 64)
}

// proposeOver proposes a change that names a version, and returns the fault if the flow is at another one.
func (s *Service) proposeOver(ctx context.Context, command kernel.Command, basedOn string) (flowverbs.Result, *v1.FlowFault, error) {
	result, err := replica.Propose[flowverbs.Result](ctx, s.State, command)
	switch refusal := result.Refusal; {
	case err != nil:
		return result, nil, err
	case refusal == nil:
		return result, nil, nil
	case refusal.Reason.Code() == reason.FlowChanged:
		return result, conflict(result.Flow, basedOn, words.Of(refusal.Reason)), nil
	default:
		return result, nil, call.Refused(refusal)
	}
}

// conflict says that a change was not made, because the flow is not at the version that it was made from.
func conflict(now *flows.Flow, basedOn, says string) *v1.FlowFault {
	out := &v1.FlowFault{
		Error: "version_conflict", Http: http.StatusConflict, CurrentVersion: now.Version, Message: says,
		Fix: "read the flow, make the change in what it is now, and send If-Match: \"" + now.Version + "\" with it",
	}
	if basedOn == "" {
		out.Message = "a content needs the header If-Match with the version that it was made from; the flow is at version " + now.Version
	}
	return out
}

// DeleteFlow deletes a flow.
func (s *Service) DeleteFlow(ctx context.Context, req *v1.DeleteFlowRequest) (*v1.DeleteFlowResponse, error) {
	_, f, err := s.find(ctx, req.GetFlowId(), flows.ToAdmin)
	if err != nil {
		return nil, err
	}
	basedOn := versionMeant(req.GetBasedOn(), "")
	_, fault, err := s.proposeOver(ctx, flowverbs.DeleteFlow{Flow: f.ID, Caller: f.caller, Actor: call.Of(ctx).Actor(), BasedOn: basedOn}, basedOn)
	if err != nil {
		return nil, err
	}
	return &v1.DeleteFlowResponse{Fault: fault}, nil
}
