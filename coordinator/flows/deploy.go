package flows

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/graph"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/flowverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// Cores makes, changes and starts the Cores that flows are deployed to.
type Cores interface {
	CreateCore(ctx context.Context, req *v1.CreateCoreRequest) (*v1.CreateCoreResponse, error)
	UpdateCore(ctx context.Context, req *v1.UpdateCoreRequest) (*v1.UpdateCoreResponse, error)
	StartCore(ctx context.Context, req *v1.StartCoreRequest) (*v1.StartCoreResponse, error)
}

// DeployFlow makes a version of a flow the program of a Core. The Core has the id of the flow in its metadata, so a deployment that was
// interrupted after the Core was made finds it again.
func (s *Service) DeployFlow(ctx context.Context, req *v1.DeployFlowRequest) (*v1.DeployFlowResponse, error) {
	v, f, err := s.find(ctx, req.GetFlowId(), flows.ToDeploy)
	if err != nil {
		return nil, err
	}
	row, err := version(v, f.Flow, req.GetVersion())
	if err != nil {
		return nil, err
	}
	content, err := s.content(ctx, f.Tenant, row)
	if err != nil {
		return nil, err
	}
	program, settings, fault := compiled([]byte(content))
	if fault != nil {
		return &v1.DeployFlowResponse{Fault: fault}, nil
	}
	out := &v1.DeployedFlow{}
	for _, d := range settings.found {
		out.Warnings = append(out.Warnings, d.Message)
	}
	if req.PublishAsModel != nil && req.GetPublishAsModel() || req.PublishAsModel == nil && settings.publish {
		out.Warnings = append(out.Warnings, "the Core is not published as a model: this version of Mind does not publish Cores yet; call it by invoke")
	}
	core, err := s.putCore(ctx, v, f.Flow, row, program)
	if err != nil {
		fault, err := refusedCore(err)
		return &v1.DeployFlowResponse{Fault: fault}, err
	}
	out.CoreId, out.CoreSlug, out.CoreVersion = core.GetId(), core.GetSlug(), core.GetVersion()
	if (req.Start == nil || req.GetStart()) && core.GetStatus() != cores.Running.String() {
		if _, err := s.Cores.StartCore(ctx, &v1.StartCoreRequest{CoreId: core.GetId()}); err != nil {
			if _, unclear := refusedCore(err); unclear != nil {
				return nil, unclear
			}
			out.Warnings = append(out.Warnings, "the Core was not started: "+grpcstatus.Convert(call.ToStatus(err)).Message())
		}
	}
	if out.DeploymentId, err = s.record(ctx, f, row, core); err != nil {
		return nil, err
	}
	return &v1.DeployFlowResponse{Deployed: out}, nil
}

// settings has the wish of a content to be published, and the findings that do not stop its deployment.
type settings struct {
	publish bool
	found   []graph.Diagnostic
}

// compiled compiles a content in the order that was published: queues first.
func compiled(content []byte) (*ir.Module, settings, *v1.FlowFault) {
	var s settings
	if g, _ := graph.Parse(content); g != nil {
		s.publish = g.Config.PublishAsModel
		if queue := g.Config.ScaiQueue; len(queue) > 0 {
			return nil, s, noQueues(queue)
		}
	}
	m, found := compile.Program(content)
	if m != nil && compile.Deployable(found) {
		s.found = found
		return m, s, nil
	}
	return nil, s, compileFault(found)
}

// compileFault is the answer about a content that cannot be deployed.
func compileFault(found []graph.Diagnostic) *v1.FlowFault {
	out := &v1.FlowFault{Error: "compile_error", Http: http.StatusBadRequest, Message: "the flow cannot be compiled"}
	out.Fix = "correct what the diagnostics say; POST /v1/flows/validate shows them without a deployment"
	if d := compile.Obstacle(found); d != nil {
		out.Message = d.Message
	}
	raw, err := json.Marshal(found)
	if err == nil {
		out.Diagnostics = string(raw)
	}
	return out
}

// noQueues says that the queues of a content cannot be made.
func noQueues(settings map[string]any) *v1.FlowFault {
	out := &v1.FlowFault{
		Error: "scaiqueue_provision_failed", Http: http.StatusBadGateway,
		Message: "the flow asks for queues of ScaiQueue (config.scaiqueue), and Mind has no ScaiQueue",
		Fix:     "take config.scaiqueue out of the flow; checkpoints ask people without a queue",
	}
	out.Scope, _ = settings["scope"].(string)
	if queues, _ := settings["queues"].([]any); len(queues) > 0 {
		first, _ := queues[0].(map[string]any)
		out.Queue, _ = first["slug"].(string)
	}
	return out
}

// putCore makes the Core of a flow, or gives it another program.
func (s *Service) putCore(ctx context.Context, v *fsm.View, f *flows.Flow, row *flows.Version, m *ir.Module) (*v1.Core, error) {
	raw, err := m.Encode()
	if err != nil {
		return nil, fmt.Errorf("writing the program of the flow %s: %w", f.ID, err)
	}
	source, err := numbers.ParseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("writing the program of the flow %s: %w", f.ID, err)
	}
	origin := map[string]any{"source_id": f.ID.String(), "source_version": row.Name}
	old, metadata := coreOf(v, f)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata[originName] = origin
	if f.Description != "" {
		metadata["description"] = f.Description
	}
	about := programs.ToStruct(metadata)
	if old != nil {
		changed, err := s.Cores.UpdateCore(ctx, &v1.UpdateCoreRequest{CoreId: old.ID.String(), Source: source, Metadata: about})
		return changed.GetCore(), err
	}
	made, err := s.Cores.CreateCore(ctx, &v1.CreateCoreRequest{Name: f.Name, RuntimeMode: "api", Source: source, Metadata: about})
	return made.GetCore(), err
}

// originName is the part of a Core's metadata that says which flow it came from.
const originName = "scaiflow"

// coreOf finds the Core of a flow, with its metadata: that of the newest deployment whose Core is there, or one that says in its
// metadata that it came from the flow.
func coreOf(v *fsm.View, f *flows.Flow) (*cores.Core, map[string]any) {
	var last *cores.Core
	for d := range v.FlowDeployments(f.ID) {
		if c, ok := v.Core(d.Core); ok && c.Tenant == f.Tenant {
			last = c
		}
	}
	if last != nil {
		return last, metadataOf(last)
	}
	for c := range v.CoresOf(f.Tenant, "") {
		metadata := metadataOf(c)
		if origin, _ := metadata[originName].(map[string]any); origin["source_id"] == f.ID.String() {
			return c, metadata
		}
	}
	return nil, nil
}

func metadataOf(c *cores.Core) map[string]any {
	var config struct {
		Metadata map[string]any `json:"metadata"`
	}
	_ = json.Unmarshal(c.Config, &config) // The state has it as JSON.
	return config.Metadata
}

// refusedCore is the answer about a Core that was refused. An error without a clear outcome stays one.
func refusedCore(err error) (*v1.FlowFault, error) {
	err = call.ToStatus(err)
	code := grpcstatus.Code(err)
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition:
	case codes.ResourceExhausted:
		if call.OutcomeOf(err) == status.NotSent {
			return nil, err
		}
	default:
		return nil, err
	}
	return &v1.FlowFault{
		Error: "scaicore_create_failed", Http: http.StatusBadGateway, Status: int32(status.OfCode(code).HTTP), Message: grpcstatus.Convert(err).Message(),
		Fix: "the message says what the Core was refused for; a Core of the same name that is not of this flow has to be deleted, or the flow be renamed",
	}, nil
}

// record adds the deployment to the list.
func (s *Service) record(ctx context.Context, f *target, row *flows.Version, core *v1.Core) (id string, err error) {
	made, ok := ident.ParseCore(core.GetId())
	if !ok {
		return "", fmt.Errorf("%q is not the id of a Core", core.GetId())
	}
	by := call.Of(ctx)
	result, err := s.propose(ctx, flowverbs.RecordDeployment{
		Flow: f.ID, Tenant: by.Tenant, User: by.User, Version: row.Name, Core: made, CoreVersion: uint32(core.GetVersion()), Actor: by.Actor(),
	})
	if err != nil {
		return "", fmt.Errorf("the Core %s was made, and its deployment is not recorded: deploy again: %w", core.GetSlug(), err)
	}
	return result.Deployment.ID.String(), nil
}
