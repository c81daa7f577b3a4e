// Package cores serves the paths of Cores: hosted programs, and their executions.
//
// Contract: a program may have any form in which programs are written (package flow/forms), as JSON or YAML. It is compiled here,
// and the coordinators get its intermediate form. One that cannot run is refused, with the place of each finding.
package cores

import (
	"net/http"

	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/param"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Parameters of lists of ScaiCore.
var (
	coreLimit  = param.Number("limit", "default 50", 1, 500)
	coreCursor = param.Text("cursor", "next_cursor of the previous page")
	ofCore     = param.Text("core_id", "only those of this Core: its id or its slug")

	executionStatuses  = []string{"running", "waiting", "paused", "completed", "failed", "canceled"}
	checkpointStatuses = []string{"pending", "resolved", "expired", "cancelled", "all"}
)

// Handlers serve the paths of Cores.
type Handlers struct{ cores v1.CoreServiceClient }

// New returns handlers that call coordinators.
func New(coordinators grpc.ClientConnInterface) *Handlers {
	return &Handlers{cores: v1.NewCoreServiceClient(coordinators)}
}

// Endpoints are those of Cores that need more than the protos declare.
func (h *Handlers) Endpoints() []rest.Endpoint {
	return []rest.Endpoint{
		{Own: parseBundleRoute, Most: maxForm, Permissions: []string{auth.CoreManage, auth.CoreAdmin}, Serve: parseBundle, Doc: openapi.Operation{InSchema: openapi.Anything, OutSchema: bundleSchema}},
		{RPC: v1.CoreService_CreateCore_FullMethodName, Serve: h.createCore, Doc: openapi.Operation{In: &v1.CreateCoreRequest{}, Out: &v1.Core{}, YAML: true}},
		{RPC: v1.CoreService_UpdateCore_FullMethodName, Serve: h.updateCore, Doc: openapi.Operation{In: &v1.UpdateCoreRequest{}, Without: []string{"core_id"}, Out: &v1.Core{}, YAML: true}},
		{RPC: v1.CoreService_InvokeCore_FullMethodName, Serve: h.invokeCore, Doc: openapi.Operation{In: &v1.InvokeCoreRequest{}, Without: []string{"core_id"}, Optional: true, Out: &v1.Execution{}, Accepted: true}},
		{RPC: v1.CoreService_ListCores_FullMethodName, Query: rest.FromQuery(wire.Listing(func() *v1.ListCoresRequest { return &v1.ListCoresRequest{} })), Doc: openapi.Operation{Query: []openapi.Parameter{
			coreLimit, coreCursor, param.Consistency,
		}}},
		{RPC: v1.CoreService_ListExecutions_FullMethodName, Query: rest.FromQuery(wire.Listing(func() *v1.ListExecutionsRequest { return &v1.ListExecutionsRequest{} }, executionStatuses...)), Doc: openapi.Operation{Missing: true, Query: []openapi.Parameter{
			ofCore, param.OneOf("status", "only executions with this status", executionStatuses), coreLimit, coreCursor, param.Consistency,
		}}},
		{RPC: v1.CoreService_ListDecisions_FullMethodName, Query: rest.FromQuery(wire.Listing(func() *v1.ListDecisionsRequest { return &v1.ListDecisionsRequest{} }, checkpointStatuses...)), Doc: openapi.Operation{Missing: true, Query: []openapi.Parameter{
			ofCore, param.OneOf("status", "pending (default), resolved, expired, cancelled or all", checkpointStatuses), coreLimit, coreCursor, param.Consistency,
		}}},
		{RPC: v1.CoreService_ListCoreEvents_FullMethodName, Query: rest.FromQuery(wire.Listing(func() *v1.ListCoreEventsRequest { return &v1.ListCoreEventsRequest{} })), Doc: openapi.Operation{Missing: true, Query: []openapi.Parameter{
			ofCore, param.Text("execution_id", "only events of this execution"), coreLimit, coreCursor, param.Consistency,
		}}},
	}
}

// invokeCore starts an execution. The answer is 200 if it is over, otherwise 202. Prefer: respond-async does not wait for its end.
func (h *Handlers) invokeCore(x *rest.Request) error {
	request := &v1.InvokeCoreRequest{}
	if _, err := x.Decode(request, true, "core_id"); err != nil {
		return err
	}
	request.CoreId = x.Segment("core_id")
	if x.R.Header.Get("Prefer") == "respond-async" {
		request.WaitSeconds = new(int32)
	}
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := h.cores.InvokeCore(ctx, request)
	if err != nil {
		return err
	}
	if reply.GetExecution().GetFinishedAt() == nil {
		accepted := *x.Route
		accepted.Code = http.StatusAccepted
		x.Route = &accepted
	}
	x.OK(reply.GetExecution())
	return nil
}
