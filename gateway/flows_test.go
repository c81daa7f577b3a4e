package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
)

const graph = `{"id":"flow_1","version":"0.1.3","n":12345678901234567890}`

// scriptedFlows is a coordinator with one flow.
func scriptedFlows(t testing.TB) *scripted {
	c := newScripted(t)
	flow := &v1.FlowDetail{Id: "flow_1", Name: "triage", Version: "0.1.3", Content: graph, Level: "admin"}
	for method, reply := range map[string]proto.Message{
		"GetFlow": &v1.GetFlowResponse{Flow: flow}, "CreateFlow": &v1.CreateFlowResponse{Flow: flow}, "UpdateFlow": &v1.UpdateFlowResponse{Flow: flow},
		"GetFlowVersion": &v1.GetFlowVersionResponse{Version: &v1.FlowVersion{Version: "0.1.3", Content: graph}},
		"ListFlowAcls":   &v1.ListFlowAclsResponse{Acls: []*v1.FlowAcl{{Id: "acl_1"}, {Id: "acl_2"}}},
	} {
		c.on(method, func(context.Context, any) (any, error) { return reply, nil })
	}
	return c
}

// Each route of flows below both prefixes, with the call that it makes and the answer without an envelope.
func TestFlows_routes(t *testing.T) {
	const body = `{"name":"triage","content":{"b":1,"a":12345678901234567890}}`
	for _, prefix := range flowPaths {
		for _, tc := range []struct {
			method, path, body string
			code               int
			request            proto.Message
			has                string
		}{
			{"GET", "?search=tri&limit=7&offset=3", "", 200, &v1.ListFlowsRequest{Search: "tri", Limit: 7, Offset: 3}, `"total":`},
			{"POST", "", body, 201, &v1.CreateFlowRequest{Name: "triage", Content: `{"b":1,"a":12345678901234567890}`}, `"content":` + graph},
			{"GET", "/flow_1", "", 200, &v1.GetFlowRequest{FlowId: "flow_1"}, `"content":` + graph},
			{"PUT", "/flow_1", `{"description":""}`, 200, &v1.UpdateFlowRequest{FlowId: "flow_1", Description: proto.String(""), BasedOn: "0.1.2"}, `"version":"0.1.3"`},
			{"DELETE", "/flow_1", "", 204, &v1.DeleteFlowRequest{FlowId: "flow_1"}, ""},
			{"GET", "/flow_1/versions", "", 200, &v1.ListFlowVersionsRequest{FlowId: "flow_1"}, `"items":[]`},
			{"GET", "/flow_1/versions/0.1.3", "", 200, &v1.GetFlowVersionRequest{FlowId: "flow_1", Version: "0.1.3"}, `"content":` + graph},
			{"GET", "/flow_1/deployments", "", 200, &v1.ListFlowDeploymentsRequest{FlowId: "flow_1"}, `"items":[]`},
			{"GET", "/flow_1/acls", "", 200, &v1.ListFlowAclsRequest{FlowId: "flow_1"}, `[{"id":"acl_1",`},
			{
				"POST", "/flow_1/acls", `{"principal_type":"user","principal_id":"bob","level":"edit"}`, 201,
				&v1.CreateFlowAclRequest{FlowId: "flow_1", PrincipalType: "user", PrincipalId: "bob", Level: "edit"}, `"principal_id":`,
			},
			{"DELETE", "/flow_1/acls/acl_1", "", 204, &v1.DeleteFlowAclRequest{FlowId: "flow_1", AclId: "acl_1"}, ""},
		} {
			t.Run(tc.method+" "+prefix+tc.path, func(t *testing.T) {
				c := scriptedFlows(t)
				config := testConfig(c)
				config.Tokens = append(config.Tokens, StaticToken{Token: "flows", Tenant: "acme", User: "ann", Permissions: []string{auth.CoreView, auth.CoreManage}})
				g := newGate(t, config)
				a := g.do(tc.method, prefix+tc.path, tc.body, "Authorization", "Bearer flows", "If-Match", `"0.1.2"`)
				require.Equal(t, tc.code, a.code, a.body)
				require.Contains(t, a.body, tc.has)
				require.NotContains(t, a.body, `"status":"ok"`)
				require.Equal(t, "42", a.header.Get("X-Mind-Index"))
				require.NotEmpty(t, a.header.Get("X-Request-Id"))
				calls := c.seen()
				require.Len(t, calls, 1)
				require.True(t, proto.Equal(tc.request, calls[0].request.(proto.Message)), "%v", calls[0].request)
				require.Equal(t, tc.method != "GET", len(calls[0].md[status.KeyIdempotency]) == 1, "writes carry a key")
				require.Empty(t, calls[0].md[status.KeyOperator])
				if strings.HasPrefix(tc.path, "/flow_1") && strings.Count(tc.path, "/") == 1 && tc.code == 200 || tc.code == 201 && tc.path == "" {
					require.Equal(t, []string{`"0.1.3"`}, a.header[headerETag], "the version to send back")
				}
			})
		}
	}
}

// Callers with scaicore:admin have every right on the flows of their tenant, and groups have rights to read, too.
func TestFlows_saysWhoAsks(t *testing.T) {
	c := scriptedFlows(t)
	config := testConfig(c)
	config.Authenticator = member{}
	newGate(t, config).do("GET", "/v1/flows/flow_1", "")
	md := c.seen()[0].md
	require.Equal(t, []string{"group:ml"}, md[status.KeyMember])
	require.NotEmpty(t, md[status.KeyOperator])
}

type member struct{}

func (member) Authenticate(context.Context, string) (*auth.Caller, error) {
	return &auth.Caller{Tenant: "acme", User: "ann", Permissions: []string{auth.CoreAdmin}, Member: []string{"group:ml"}}, nil
}

func TestFlows_refuseAsPublished(t *testing.T) {
	c := scriptedFlows(t)
	c.on("UpdateFlow", func(context.Context, any) (any, error) {
		return &v1.UpdateFlowResponse{Fault: &v1.FlowFault{Error: "version_conflict", Message: "it is \"newer\"", Fix: "read it", Http: 409, CurrentVersion: "0.1.4"}}, nil
	})
	c.on("GetFlow", func(context.Context, any) (any, error) {
		return nil, grpcstatus.Error(codes.NotFound, "there is no flow")
	})
	g := newGate(t, testConfig(c))
	a := g.do("PUT", "/v1/flows/flow_1", `{"content":{}}`)
	require.Equal(t, 409, a.code)
	require.JSONEq(t, `{"detail":{"error":"version_conflict","message":"it is \"newer\"","fix":"read it","current_version":"0.1.4"}}`, a.body)
	require.Empty(t, a.header.Get("ETag"))
	a = g.do("GET", "/v1/flows/flow_1", "")
	require.JSONEq(t, `{"detail":{"error":"not_found","message":"there is no flow"}}`, a.body)
	a = g.do("GET", "/api/v1/flows", "", "Authorization", "")
	require.Equal(t, 401, a.code)
	require.JSONEq(t, `{"detail":{"error":"auth_token_missing","message":"send an Authorization header: Bearer TOKEN"}}`, a.body)
	a = g.do("POST", "/v1/flows", `{"name":"x","content":[1]}`)
	require.Equal(t, 422, a.code)
	require.JSONEq(t, `{"detail":{"error":"validation_error","message":"content: must be an object, not a list","details":[{"field":"content","message":"must be an object, not a list"}]}}`, a.body)
	a = g.do("POST", "/v1/flows", `{"name":"x","content":`+strings.Repeat(`{"a":`, 65)+"1"+strings.Repeat("}", 65)+`}`)
	require.Equal(t, 422, a.code)
	a = g.do("PATCH", "/v1/flows/flow_1", `{}`)
	require.Equal(t, http.StatusMethodNotAllowed, a.code)
	require.Contains(t, a.body, `{"detail":{"error":"method_not_allowed"`)
}

func TestVersionOf(t *testing.T) {
	for tag, want := range map[string]string{`"0.1.3"`: "0.1.3", `W/"0.1.3"`: "0.1.3", "0.1.3": "0.1.3", "": "", "*": "*", ` "0.1.3" `: "0.1.3"} {
		require.Equal(t, want, versionOf(tag), tag)
	}
}
