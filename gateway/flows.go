package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// flowPaths are the prefixes of the paths of flows. ScaiFlow published both: the first on its pages, the second in its index.
var flowPaths = []string{"/v1/flows", "/api/v1/flows"}

// ofFlows reports whether a path is one of flows.
func ofFlows(path string) bool {
	for _, prefix := range flowPaths {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}

// speakAsPath gives an answer about a path that has no route the form of its neighbours.
func (x *httpRequest) speakAsPath() {
	if ofFlows(x.r.URL.Path) {
		bare := *x.route
		bare.Bare = true
		x.route = &bare
	}
}

var flowList = params{
	text("search", "only flows with this in their name, whatever the case"), number("limit", "default 100", 1, 1000),
	number("offset", "so many are left out first; default 0", 0, maxInt32), consistency,
}

// flowEndpoints are those of flows that need more than the protos declare. Those without a variable segment come first: the id of a
// flow would match them, too.
func flowEndpoints() []endpoint {
	var pure, tests []endpoint
	flow := func(rpc string, serve func(x *httpRequest) error, d doc) endpoint {
		return endpoint{rpc: rpc, serve: serve, doc: d}
	}
	for _, prefix := range flowPaths {
		own := func(method, path, summary string, published bool) methods.Route {
			return methods.Route{
				Method: method, Path: prefix + path, Summary: summary, Code: http.StatusOK, Choice: !published || prefix != flowPaths[0], Bare: true,
			}
		}
		pure = append(pure,
			endpoint{own: own("GET", "/kinds", "List the kinds of nodes", false), permissions: readFlows, serve: flowKinds, doc: doc{OutSchema: anything}},
			endpoint{own: own("POST", "/validate", "Check the content of a flow", true), permissions: readFlows, serve: validateFlow, doc: doc{In: &v1.ValidateFlowBody{}, OutSchema: anything}},
			endpoint{own: own("POST", "/expressions", "Check an expression", false), permissions: readFlows, serve: checkExpression, doc: doc{In: &v1.CheckExpressionBody{}, OutSchema: anything}},
			endpoint{own: own("POST", "/compile", "Compile the content of a flow", true), permissions: readFlows, serve: compileFlow, doc: doc{In: &v1.CompileFlowBody{}, OutSchema: anything}},
		)
		tests = append(tests, endpoint{
			own: own("POST", "/{flow_id}/run-tests", "Run the tests of a flow", false), permissions: []string{auth.CoreManage, auth.CoreAdmin}, serve: testFlow,
			operator: auth.CoreAdmin, doc: doc{In: &v1.TestFlowBody{}, Optional: true, OutSchema: anything},
		})
	}
	return slices.Concat(pure, tests, []endpoint{
		{rpc: v1.FlowService_ListFlows_FullMethodName, query: fromQuery(listFlows), doc: doc{Query: flowList}},
		flow(v1.FlowService_CreateFlow_FullMethodName, createFlow, doc{In: &v1.CreateFlowRequest{}, Out: &v1.FlowDetail{}}),
		flow(v1.FlowService_GetFlow_FullMethodName, getFlow, doc{Out: &v1.FlowDetail{}, Query: read}),
		flow(v1.FlowService_UpdateFlow_FullMethodName, updateFlow, doc{In: &v1.UpdateFlowRequest{}, Without: []string{"flow_id", "based_on"}, Out: &v1.FlowDetail{}}),
		flow(v1.FlowService_DeleteFlow_FullMethodName, deleteFlow, doc{}),
		flow(v1.FlowService_GetFlowVersion_FullMethodName, getFlowVersion, doc{Out: &v1.FlowVersion{}, Query: read}),
		flow(v1.FlowService_ListFlowAcls_FullMethodName, listFlowACLs, doc{OutSchema: list(anything), Query: read}),
		flow(v1.FlowService_UpdateFlowAcl_FullMethodName, updateFlowACL, doc{In: &v1.UpdateFlowAclRequest{}, Without: []string{"flow_id", "acl_id"}, Out: &v1.FlowAcl{}}),
		flow(v1.FlowService_DeleteFlowAcl_FullMethodName, deleteFlowACL, doc{}),
		flow(v1.FlowService_DeployFlow_FullMethodName, deployFlow, doc{
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
	request.Offset, faults = wire.Int(query, "offset", 0, maxInt32, faults)
	return request, faults
}

// tagged is the answer with a flow. Its entity tag is the version, which a change of the content is sent back with.
func tagged(x *httpRequest, f *v1.FlowDetail) proto.Message {
	x.w.Header()[headerETag] = []string{`"` + f.GetVersion() + `"`}
	return f
}

func createFlow(x *httpRequest) error {
	request := &v1.CreateFlowRequest{}
	if _, err := x.decode(request, false); err != nil {
		return err
	}
	return unary(x, request, x.server.flows.CreateFlow, func(r *v1.CreateFlowResponse) proto.Message { return tagged(x, r.GetFlow()) })
}

func getFlow(x *httpRequest) error {
	return unary(x, &v1.GetFlowRequest{FlowId: segment(x, "flow_id")}, x.server.flows.GetFlow,
		func(r *v1.GetFlowResponse) proto.Message { return tagged(x, r.GetFlow()) })
}

// updateFlow changes a flow. The header If-Match has the version that a content was made from.
func updateFlow(x *httpRequest) error {
	request := &v1.UpdateFlowRequest{}
	if _, err := x.decode(request, false, "flow_id", "based_on"); err != nil {
		return err
	}
	request.FlowId, request.BasedOn = segment(x, "flow_id"), versionOf(x.ifMatch())
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := x.server.flows.UpdateFlow(ctx, request)
	if err != nil {
		return err
	}
	if reply.GetFault() != nil {
		return refusedFlow(reply.GetFault())
	}
	x.ok(tagged(x, reply.GetFlow()))
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
	p := &problem{http: int(f.GetHttp()), code: f.GetError(), message: f.GetMessage(), coordinators: true}
	for _, more := range []struct{ name, text string }{{"fix", f.GetFix()}, {"current_version", f.GetCurrentVersion()}, {"scope", f.GetScope()}, {"queue", f.GetQueue()}} {
		if more.text != "" {
			p.more = append(p.more, `,"`+more.name+`":`...)
			p.more = wire.AppendString(p.more, more.text)
		}
	}
	if f.GetStatus() != 0 {
		p.more = strconv.AppendInt(append(p.more, `,"status":`...), int64(f.GetStatus()), 10)
	}
	if f.GetDiagnostics() != "" {
		p.more = append(append(p.more, `,"diagnostics":`...), f.GetDiagnostics()...)
	}
	return p
}

func deleteFlow(x *httpRequest) error {
	request, reply := &v1.DeleteFlowRequest{FlowId: segment(x, "flow_id"), BasedOn: versionOf(x.ifMatch())}, &v1.DeleteFlowResponse{}
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	if err := x.server.client.Invoke(ctx, v1.FlowService_DeleteFlow_FullMethodName, request, reply); err != nil {
		return err
	}
	if reply.GetFault() != nil {
		return refusedFlow(reply.GetFault())
	}
	x.nothing()
	return nil
}

func updateFlowACL(x *httpRequest) error {
	request := &v1.UpdateFlowAclRequest{}
	if _, err := x.decode(request, false, "flow_id", "acl_id"); err != nil {
		return err
	}
	request.FlowId, request.AclId = segment(x, "flow_id"), segment(x, "acl_id")
	return unary(x, request, x.server.flows.UpdateFlowAcl, func(r *v1.UpdateFlowAclResponse) proto.Message { return r.GetAcl() })
}

func deleteFlowACL(x *httpRequest) error {
	return done(x, &v1.DeleteFlowAclRequest{FlowId: segment(x, "flow_id"), AclId: segment(x, "acl_id")},
		v1.FlowService_DeleteFlowAcl_FullMethodName, &v1.DeleteFlowAclResponse{})
}

// done makes one call whose answer says nothing but that it was done.
func done(x *httpRequest, request proto.Message, rpc string, reply proto.Message) error {
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	if err := x.server.client.Invoke(ctx, rpc, request, reply); err != nil {
		return err
	}
	x.nothing()
	return nil
}

func getFlowVersion(x *httpRequest) error {
	return unary(x, &v1.GetFlowVersionRequest{FlowId: segment(x, "flow_id"), Version: segment(x, "version")}, x.server.flows.GetFlowVersion,
		func(r *v1.GetFlowVersionResponse) proto.Message { return r.GetVersion() })
}

// listFlowACLs answers the list itself, as it was published.
func listFlowACLs(x *httpRequest) error {
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := x.server.flows.ListFlowAcls(ctx, &v1.ListFlowAclsRequest{FlowId: segment(x, "flow_id")})
	if err != nil {
		return err
	}
	x.data(func(b []byte) []byte {
		b = append(b, '[')
		for i, acl := range reply.GetAcls() {
			if i > 0 {
				b = append(b, ',')
			}
			b = wire.Append(b, acl, x.hides())
		}
		return append(b, ']')
	})
	return nil
}
