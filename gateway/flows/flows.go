// Package flows serves the paths of flows: programs that people draw, with their rights, tests and deployments.
//
// Contract: the answers have no envelope, and errors have the form that ScaiFlow published. All that touches no cluster (the
// kinds of nodes, validating, compiling, checking an expression, running tests) is done here, by the packages of flow.
package flows

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/param"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// flowPaths are the prefixes of the paths of flows. ScaiFlow published both: the first on its pages, the second in its index.
var flowPaths = []string{"/v1/flows", "/api/v1/flows"}

// Has reports whether a path is one of flows.
func Has(path string) bool {
	for _, prefix := range flowPaths {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}

// Handlers serve the paths of flows.
type Handlers struct {
	coordinators grpc.ClientConnInterface
	flows        v1.FlowServiceClient
}

// New returns handlers that call coordinators.
func New(coordinators grpc.ClientConnInterface) *Handlers {
	return &Handlers{coordinators: coordinators, flows: v1.NewFlowServiceClient(coordinators)}
}

var flowList = []openapi.Parameter{
	param.Text("search", "only flows with this in their name, whatever the case"), param.Number("limit", "default 100", 1, 1000),
	param.Number("offset", "so many are left out first; default 0", 0, param.MostInt32), param.Consistency,
}

// Endpoints are those of flows that need more than the protos declare. Those without a variable segment come first: the id of a
// flow would match them, too.
func (h *Handlers) Endpoints() []rest.Endpoint {
	var pure, tests []rest.Endpoint
	flow := func(rpc string, serve func(x *rest.Request) error, d openapi.Operation) rest.Endpoint {
		return rest.Endpoint{RPC: rpc, Serve: serve, Doc: d}
	}
	for _, prefix := range flowPaths {
		own := func(method, path, summary string, published bool) methods.Route {
			return methods.Route{
				Method: method, Path: prefix + path, Summary: summary, Code: http.StatusOK, Choice: !published || prefix != flowPaths[0], Bare: true,
			}
		}
		pure = append(pure,
			rest.Endpoint{Own: own("GET", "/kinds", "List the kinds of nodes", false), Permissions: readFlows, Serve: flowKinds, Doc: openapi.Operation{OutSchema: openapi.Anything}},
			rest.Endpoint{Own: own("POST", "/validate", "Check the content of a flow", true), Permissions: readFlows, Serve: validateFlow, Doc: openapi.Operation{In: &v1.ValidateFlowBody{}, OutSchema: openapi.Anything}},
			rest.Endpoint{Own: own("POST", "/expressions", "Check an expression", false), Permissions: readFlows, Serve: checkExpression, Doc: openapi.Operation{In: &v1.CheckExpressionBody{}, OutSchema: openapi.Anything}},
			rest.Endpoint{Own: own("POST", "/compile", "Compile the content of a flow", true), Permissions: readFlows, Serve: compileFlow, Doc: openapi.Operation{In: &v1.CompileFlowBody{}, OutSchema: openapi.Anything}},
		)
		tests = append(tests, rest.Endpoint{
			Own: own("POST", "/{flow_id}/run-tests", "Run the tests of a flow", false), Permissions: []string{auth.CoreManage, auth.CoreAdmin}, Serve: h.testFlow,
			Operator: auth.CoreAdmin, Doc: openapi.Operation{In: &v1.TestFlowBody{}, Optional: true, OutSchema: openapi.Anything},
		})
	}
	return slices.Concat(pure, tests, []rest.Endpoint{
		{RPC: v1.FlowService_ListFlows_FullMethodName, Query: rest.FromQuery(listFlows), Doc: openapi.Operation{Query: flowList}},
		flow(v1.FlowService_CreateFlow_FullMethodName, h.createFlow, openapi.Operation{In: &v1.CreateFlowRequest{}, Out: &v1.FlowDetail{}}),
		flow(v1.FlowService_GetFlow_FullMethodName, h.getFlow, openapi.Operation{Out: &v1.FlowDetail{}, Query: param.Read}),
		flow(v1.FlowService_UpdateFlow_FullMethodName, h.updateFlow, openapi.Operation{In: &v1.UpdateFlowRequest{}, Without: []string{"flow_id", "based_on"}, Out: &v1.FlowDetail{}}),
		flow(v1.FlowService_DeleteFlow_FullMethodName, h.deleteFlow, openapi.Operation{}),
		flow(v1.FlowService_GetFlowVersion_FullMethodName, h.getFlowVersion, openapi.Operation{Out: &v1.FlowVersion{}, Query: param.Read}),
		flow(v1.FlowService_ListFlowAcls_FullMethodName, h.listFlowACLs, openapi.Operation{OutSchema: openapi.List(openapi.Anything), Query: param.Read}),
		flow(v1.FlowService_UpdateFlowAcl_FullMethodName, h.updateFlowACL, openapi.Operation{In: &v1.UpdateFlowAclRequest{}, Without: []string{"flow_id", "acl_id"}, Out: &v1.FlowAcl{}}),
		flow(v1.FlowService_DeleteFlowAcl_FullMethodName, h.deleteFlowACL, openapi.Operation{}),
		flow(v1.FlowService_DeployFlow_FullMethodName, h.deployFlow, openapi.Operation{
			In: &v1.DeployFlowRequest{}, Without: []string{"flow_id"}, Optional: true, Out: &v1.DeployedFlow{}, Upstream: true,
		}),
	})
}

// readFlows are the permissions of which a caller needs one to read.
var readFlows = []string{auth.CoreView, auth.CoreAdmin}

func listFlows(query url.Values) (*v1.ListFlowsRequest, []wire.Fault) {
	request := &v1.ListFlowsRequest{Search: query.Get("search")}
	var faults []wire.Fault
	request.Limit, faults = wire.Int(query, "limit", 1, 1000, nil)
	request.Offset, faults = wire.Int(query, "offset", 0, param.MostInt32, faults)
	return request, faults
}

// tagged is the answer with a flow. Its entity tag is the version, which a change of the content is sent back with.
func tagged(x *rest.Request, f *v1.FlowDetail) proto.Message {
	x.W.Header()[rest.HeaderETag] = []string{`"` + f.GetVersion() + `"`}
	return f
}

func (h *Handlers) createFlow(x *rest.Request) error {
	request := &v1.CreateFlowRequest{}
	if _, err := x.Decode(request, false); err != nil {
		return err
	}
	return rest.Unary(x, request, h.flows.CreateFlow, func(r *v1.CreateFlowResponse) proto.Message { return tagged(x, r.GetFlow()) })
}

func (h *Handlers) getFlow(x *rest.Request) error {
	return rest.Unary(x, &v1.GetFlowRequest{FlowId: x.Segment("flow_id")}, h.flows.GetFlow,
		func(r *v1.GetFlowResponse) proto.Message { return tagged(x, r.GetFlow()) })
}

// updateFlow changes a flow. The header If-Match has the version that a content was made from.
func (h *Handlers) updateFlow(x *rest.Request) error {
	request := &v1.UpdateFlowRequest{}
	if _, err := x.Decode(request, false, "flow_id", "based_on"); err != nil {
		return err
	}
	request.FlowId, request.BasedOn = x.Segment("flow_id"), versionOf(x.IfMatch())
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := h.flows.UpdateFlow(ctx, request)
	if err != nil {
		return err
	}
	if reply.GetFault() != nil {
		return refusedFlow(reply.GetFault())
	}
	x.OK(tagged(x, reply.GetFlow()))
	return nil
}

// versionOf is the version in an entity tag. A tag without quotes is taken, too.
func versionOf(tag string) string {
	tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
	if unquoted, ok := strings.CutPrefix(tag, `"`); ok {
		return strings.TrimSuffix(unquoted, `"`)
	}
	return tag
}

// refusedFlow is the answer about something that was refused with more than a sentence.
func refusedFlow(f *v1.FlowFault) error {
	p := &rest.Problem{HTTP: int(f.GetHttp()), Code: f.GetError(), Message: f.GetMessage(), Coordinators: true}
	for _, more := range []struct{ name, text string }{{"fix", f.GetFix()}, {"current_version", f.GetCurrentVersion()}, {"scope", f.GetScope()}, {"queue", f.GetQueue()}} {
		if more.text != "" {
			p.More = append(p.More, `,"`+more.name+`":`...)
			p.More = wire.AppendString(p.More, more.text)
		}
	}
	if f.GetStatus() != 0 {
		p.More = strconv.AppendInt(append(p.More, `,"status":`...), int64(f.GetStatus()), 10)
	}
	if f.GetDiagnostics() != "" {
		p.More = append(append(p.More, `,"diagnostics":`...), f.GetDiagnostics()...)
	}
	return p
}

func (h *Handlers) deleteFlow(x *rest.Request) error {
	request, reply := &v1.DeleteFlowRequest{FlowId: x.Segment("flow_id"), BasedOn: versionOf(x.IfMatch())}, &v1.DeleteFlowResponse{}
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	if err := h.coordinators.Invoke(ctx, v1.FlowService_DeleteFlow_FullMethodName, request, reply); err != nil {
		return err
	}
	if reply.GetFault() != nil {
		return refusedFlow(reply.GetFault())
	}
	x.Nothing()
	return nil
}

func (h *Handlers) updateFlowACL(x *rest.Request) error {
	request := &v1.UpdateFlowAclRequest{}
	if _, err := x.Decode(request, false, "flow_id", "acl_id"); err != nil {
		return err
	}
	request.FlowId, request.AclId = x.Segment("flow_id"), x.Segment("acl_id")
	return rest.Unary(x, request, h.flows.UpdateFlowAcl, func(r *v1.UpdateFlowAclResponse) proto.Message { return r.GetAcl() })
}

func (h *Handlers) deleteFlowACL(x *rest.Request) error {
	return h.done(x, &v1.DeleteFlowAclRequest{FlowId: x.Segment("flow_id"), AclId: x.Segment("acl_id")},
		v1.FlowService_DeleteFlowAcl_FullMethodName, &v1.DeleteFlowAclResponse{})
}

// done makes one call whose answer says nothing but that it was done.
func (h *Handlers) done(x *rest.Request, request proto.Message, rpc string, reply proto.Message) error {
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	if err := h.coordinators.Invoke(ctx, rpc, request, reply); err != nil {
		return err
	}
	x.Nothing()
	return nil
}

func (h *Handlers) getFlowVersion(x *rest.Request) error {
	return rest.Unary(x, &v1.GetFlowVersionRequest{FlowId: x.Segment("flow_id"), Version: x.Segment("version")}, h.flows.GetFlowVersion,
		func(r *v1.GetFlowVersionResponse) proto.Message { return r.GetVersion() })
}

// listFlowACLs answers the list itself, as it was published.
func (h *Handlers) listFlowACLs(x *rest.Request) error {
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := h.flows.ListFlowAcls(ctx, &v1.ListFlowAclsRequest{FlowId: x.Segment("flow_id")})
	if err != nil {
		return err
	}
	x.Data(func(b []byte) []byte {
		b = append(b, '[')
		for i, acl := range reply.GetAcls() {
			if i > 0 {
				b = append(b, ',')
			}
			b = wire.Append(b, acl, x.Hides())
		}
		return append(b, ']')
	})
	return nil
}
