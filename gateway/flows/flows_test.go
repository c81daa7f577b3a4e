package flows_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

const drawn = `{"id":"flow_1","version":"0.1.3","n":12345678901234567890}`

// scriptedFlows is a coordinator with one flow.
func scriptedFlows(t testing.TB) *gatewaytest.Coordinator {
	c := gatewaytest.NewCoordinator(t)
	flow := &v1.FlowDetail{Id: "flow_1", Name: "triage", Version: "0.1.3", Content: drawn, Level: "admin"}
	for method, reply := range map[string]proto.Message{
		"GetFlow": &v1.GetFlowResponse{Flow: flow}, "CreateFlow": &v1.CreateFlowResponse{Flow: flow}, "UpdateFlow": &v1.UpdateFlowResponse{Flow: flow},
		"GetFlowVersion": &v1.GetFlowVersionResponse{Version: &v1.FlowVersion{Version: "0.1.3", Content: drawn}},
		"DeployFlow":     &v1.DeployFlowResponse{Deployed: &v1.DeployedFlow{DeploymentId: "dep_1", CoreVersion: 2, Warnings: []string{"w"}}},
		"UpdateFlowAcl":  &v1.UpdateFlowAclResponse{Acl: &v1.FlowAcl{Id: "acl_1", Level: "edit"}},
		"DeleteFlow":     &v1.DeleteFlowResponse{},
		"ListFlowAcls":   &v1.ListFlowAclsResponse{Acls: []*v1.FlowAcl{{Id: "acl_1"}, {Id: "acl_2"}}},
	} {
		c.On(method, func(context.Context, any) (any, error) { return reply, nil })
	}
	return c
}

// Each route of flows below both prefixes, with the call that it makes and the answer without an envelope.
func TestFlows_routes(t *testing.T) {
	const body = `{"name":"triage","content":{"b":1,"a":12345678901234567890}}`
	for _, prefix := range []string{"/v1/flows", "/api/v1/flows"} {
		for _, tc := range []struct {
			method, path, body string
			code               int
			request            proto.Message
			has                string
		}{
			{"GET", "?search=tri&limit=7&offset=3", "", 200, &v1.ListFlowsRequest{Search: "tri", Limit: 7, Offset: 3}, `"total":`},
			{"POST", "", body, 201, &v1.CreateFlowRequest{Name: "triage", Content: `{"b":1,"a":12345678901234567890}`}, `"content":` + drawn},
			{"GET", "/flow_1", "", 200, &v1.GetFlowRequest{FlowId: "flow_1"}, `"content":` + drawn},
			{"PUT", "/flow_1", `{"description":""}`, 200, &v1.UpdateFlowRequest{FlowId: "flow_1", Description: proto.String(""), BasedOn: "0.1.2"}, `"version":"0.1.3"`},
			{"DELETE", "/flow_1", "", 204, &v1.DeleteFlowRequest{FlowId: "flow_1", BasedOn: "0.1.2"}, ""},
			{"GET", "/flow_1/versions", "", 200, &v1.ListFlowVersionsRequest{FlowId: "flow_1"}, `"items":[]`},
			{"GET", "/flow_1/versions/0.1.3", "", 200, &v1.GetFlowVersionRequest{FlowId: "flow_1", Version: "0.1.3"}, `"content":` + drawn},
			{"GET", "/flow_1/deployments", "", 200, &v1.ListFlowDeploymentsRequest{FlowId: "flow_1"}, `"items":[]`},
			{"GET", "/flow_1/acls", "", 200, &v1.ListFlowAclsRequest{FlowId: "flow_1"}, `[{"id":"acl_1",`},
			{
				"POST", "/flow_1/acls", `{"principal_type":"user","principal_id":"bob","level":"edit"}`, 201,
				&v1.CreateFlowAclRequest{FlowId: "flow_1", PrincipalType: "user", PrincipalId: "bob", Level: "edit"}, `"principal_id":`,
			},
			{
				"POST", "/flow_1/deploy", `{"start":false,"publish_as_model":true}`, 200,
				&v1.DeployFlowRequest{FlowId: "flow_1", Start: proto.Bool(false), PublishAsModel: proto.Bool(true)},
				`{"deployment_id":"dep_1","core_id":"","core_slug":"","core_version":2,"published_slug":null,"warnings":["w"]}`,
			},
			{"POST", "/flow_1/deploy", "", 200, &v1.DeployFlowRequest{FlowId: "flow_1"}, "dep_1"},
			{"PATCH", "/flow_1/acls/acl_1", `{"level":"edit"}`, 200, &v1.UpdateFlowAclRequest{FlowId: "flow_1", AclId: "acl_1", Level: "edit"}, `"level":`},
			{"DELETE", "/flow_1/acls/acl_1", "", 204, &v1.DeleteFlowAclRequest{FlowId: "flow_1", AclId: "acl_1"}, ""},
		} {
			t.Run(tc.method+" "+prefix+tc.path, func(t *testing.T) {
				c := scriptedFlows(t)
				config := gatewaytest.Config(c)
				config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "flows", Tenant: "acme", User: "ann", Permissions: []string{auth.CoreView, auth.CoreManage}})
				g := gatewaytest.NewGate(t, config)
				headers := []string{"Authorization", "Bearer flows"}
				if tc.path == "/flow_1" {
					headers = append(headers, "If-Match", `"0.1.2"`)
				}
				a := g.Do(tc.method, prefix+tc.path, tc.body, headers...)
				require.Equal(t, tc.code, a.Code, a.Body)
				require.Contains(t, a.Body, tc.has)
				require.NotContains(t, a.Body, `"status":"ok"`)
				require.Equal(t, "42", a.Header.Get("X-Mind-Index"))
				require.NotEmpty(t, a.Header.Get("X-Request-Id"))
				calls := c.Calls()
				require.Len(t, calls, 1)
				require.True(t, proto.Equal(tc.request, calls[0].Request.(proto.Message)), "%v", calls[0].Request)
				require.Equal(t, tc.method != "GET", len(calls[0].MD[status.KeyIdempotency]) == 1, "writes carry a key")
				require.Empty(t, calls[0].MD[status.KeyOperator])
				if strings.HasPrefix(tc.path, "/flow_1") && strings.Count(tc.path, "/") == 1 && tc.code == 200 || tc.code == 201 && tc.path == "" {
					require.Equal(t, []string{`"0.1.3"`}, a.Header[rest.HeaderETag], "the version to send back")
				}
			})
		}
	}
}

// A write with a condition that nothing checks is refused: its caller relies on it.
func TestFlows_conditionsAreCheckedOrRefused(t *testing.T) {
	c := scriptedFlows(t)
	config := gatewaytest.Config(c)
	config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "flows", Tenant: "acme", User: "ann", Permissions: []string{auth.CoreView, auth.CoreManage}})
	g := gatewaytest.NewGate(t, config)
	for _, tc := range []struct{ method, path, body, header string }{
		{"POST", "/v1/flows", `{"name":"n","content":{}}`, "If-Match"},
		{"PUT", "/v1/flows/flow_1", `{"name":"n"}`, "If-None-Match"},
		{"PATCH", "/v1/flows/flow_1/acls/acl_1", `{"level":"edit"}`, "If-Match"},
	} {
		a := g.Do(tc.method, tc.path, tc.body, "Authorization", "Bearer flows", tc.header, `"0.1.0"`)
		require.Equal(t, 422, a.Code, a.Body)
		require.Contains(t, a.Body, tc.header)
	}
	require.Empty(t, c.Calls())
}

// Callers with scaicore:admin have every right on the flows of their tenant, and groups have rights to read, too.
func TestFlows_saysWhoAsks(t *testing.T) {
	c := scriptedFlows(t)
	config := gatewaytest.Config(c)
	config.Authenticator = member{}
	gatewaytest.NewGate(t, config).Do("GET", "/v1/flows/flow_1", "")
	md := c.Calls()[0].MD
	require.Equal(t, []string{"group:ml"}, md[status.KeyMember])
	require.NotEmpty(t, md[status.KeyOperator])
}

type member struct{}

func (member) Authenticate(context.Context, string) (*auth.Caller, error) {
	return &auth.Caller{Tenant: "acme", User: "ann", Permissions: []string{auth.CoreAdmin}, Member: []string{"group:ml"}}, nil
}

// The compiler runs in the gateway: no coordinator is called.
func TestFlows_areCompiledHere(t *testing.T) {
	c := scriptedFlows(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	do := func(path, body string) (out map[string]any) {
		a := g.Do("POST", "/v1/flows/"+path, body)
		require.Equal(t, 200, a.Code, a.Body)
		require.NoError(t, json.Unmarshal([]byte(a.Body), &out))
		return out
	}
	require.Equal(t, map[string]any{"valid": true, "diagnostics": []any{}}, do("validate", `{"content":`+gatewaytest.Greeting+`}`))
	bad := do("validate", `{"content":{"name":"x","nodes":[],"edges":[]}}`)
	require.Equal(t, false, bad["valid"])
	require.Contains(t, fmt.Sprint(bad["diagnostics"]), "severity:error")
	yaml := do("compile", `{"content":`+gatewaytest.Greeting+`}`)
	require.Equal(t, []any{"yaml", []any{}}, []any{yaml["format"], yaml["errors"]})
	require.Contains(t, yaml["body"], "source_id: flow_1")
	ir := do("compile", `{"format":"ir","content":`+gatewaytest.Greeting+`}`)
	raw, err := base64.StdEncoding.DecodeString(ir["body"].(string))
	require.NoError(t, err)
	require.Contains(t, string(raw), `"schema_version"`)
	failed := do("compile", `{"content":{"name":"x","nodes":[],"edges":[]}}`)
	require.Equal(t, []any{"", false}, []any{failed["body"], len(failed["errors"].([]any)) == 0})
	require.Contains(t, do("compile", `{"format":"scai","content":{}}`)["errors"].([]any)[0].(map[string]any)["message"], "use yaml or ir")
	a := g.Do("GET", "/api/v1/flows/kinds", "")
	require.Equal(t, 200, a.Code)
	require.Equal(t, 24, strings.Count(a.Body, `"category":`))
	require.Empty(t, c.Calls())
	for body, field := range map[string]string{
		`{}`: "content", `{"content":{},"format":"exe"}`: "format", `{"content":{"a":"` + strings.Repeat("x", 512<<10) + `"}}`: "content", `{"content":[]}`: "content",
	} {
		a := g.Do("POST", "/v1/flows/compile", body)
		require.Equal(t, 422, a.Code)
		require.Equal(t, field, a.Error.Details[0].Field)
	}
}

func TestFlows_checkExpressions(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(scriptedFlows(t)))
	for body, want := range map[string]string{
		`{"text":"score > 0.7 && limit"}`:                      `{"names":[{"from":0,"to":5,"name":"score"},{"from":15,"to":20,"name":"limit"}],"problems":[]}`,
		`{"text":"a + * 2"}`:                                   `{"names":[],"problems":[{"from":4,"to":5,"message":"expected a value, found *"}]}`,
		`{"text":"\"𝄞\" + else"}`:                              `{"names":[],"problems":[{"from":7,"to":11,"message":"expected a value, found else, which is a reserved word"}]}`,
		`{"text":"a +"}`:                                       `{"names":[],"problems":[{"from":3,"to":3,"message":"expected a value, found the end"}]}`,
		`{"text":"𝄞 {{who}} {{x.map(e, e)}}","template":true}`: `{"names":[{"from":5,"to":8,"name":"who"},{"from":13,"to":14,"name":"x"}],"problems":[]}`,
		`{"text":"{{who}","template":true}`:                    `{"names":[],"problems":[{"from":5,"to":6,"message":"expected an operator or }}, found }"}]}`,
	} {
		a := g.Do("POST", "/v1/flows/expressions", body)
		require.Equal(t, 200, a.Code, a.Body)
		require.JSONEq(t, want, a.Body, body)
	}
	a := g.Do("POST", "/v1/flows/expressions", `{"text":"`+strings.Repeat("1+", 3000)+`1"}`)
	require.Contains(t, a.Body, "at most 4096 bytes")
}

func TestFlows_runTheirTests(t *testing.T) {
	c := scriptedFlows(t)
	content := gatewaytest.Greeting
	c.On("GetFlow", func(context.Context, any) (any, error) {
		return &v1.GetFlowResponse{Flow: &v1.FlowDetail{Content: content}}, nil
	})
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	a := g.Do("POST", "/v1/flows/flow_1/run-tests", `{"version":"0.1.1"}`)
	require.Equal(t, 200, a.Code, a.Body)
	require.True(t, proto.Equal(&v1.GetFlowRequest{FlowId: "flow_1", Version: "0.1.1", Level: "deploy"}, c.Calls()[0].Request.(proto.Message)), "it takes the right to deploy")
	require.NotEmpty(t, c.Calls()[0].MD[status.KeyOperator])
	var report struct {
		Passed, Failed int
		Results        []struct{ Name, Message, Status string }
	}
	require.NoError(t, json.Unmarshal([]byte(a.Body), &report))
	require.Equal(t, []int{1, 1, 2}, []int{report.Passed, report.Failed, len(report.Results)})
	require.Equal(t, "Bob", report.Results[1].Name)
	require.Contains(t, report.Results[1].Message, `its output is "Hello Bob", and "Hello Ada" was expected`)
	content = `{"name":"x","nodes":[],"edges":[]}`
	a = g.Do("POST", "/v1/flows/flow_1/run-tests", "")
	require.Equal(t, []any{400, "COMPILE_ERROR"}, []any{a.Code, a.Error.Code})
	require.Contains(t, a.Body, `"diagnostics":[{`)
	content = strings.Replace(gatewaytest.Greeting, `"tests":[`, `"tests":[{"nme":"x"},`, 1)
	a = g.Do("POST", "/v1/flows/flow_1/run-tests", "")
	require.Equal(t, 400, a.Code)
	require.Contains(t, a.Error.Message, "tests: test 1 is not valid")
}

func TestFlows_refuseAsPublished(t *testing.T) {
	c := scriptedFlows(t)
	c.On("UpdateFlow", func(context.Context, any) (any, error) {
		return &v1.UpdateFlowResponse{Fault: &v1.FlowFault{Error: "version_conflict", Message: "it is \"newer\"", Fix: "read it", Http: 409, CurrentVersion: "0.1.4"}}, nil
	})
	c.On("GetFlow", func(context.Context, any) (any, error) {
		return nil, grpcstatus.Error(codes.NotFound, "there is no flow")
	})
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	c.On("DeployFlow", func(context.Context, any) (any, error) {
		return &v1.DeployFlowResponse{Fault: &v1.FlowFault{
			Error: "scaicore_create_failed", Message: "no", Http: 502, Status: 409, Scope: "s", Queue: "q", Diagnostics: `[{"code":"X"}]`,
		}}, nil
	})
	a := g.Do("POST", "/v1/flows/flow_1/deploy", "")
	require.Equal(t, 502, a.Code)
	require.JSONEq(t, `{"detail":{"error":"scaicore_create_failed","message":"no","status":409,"scope":"s","queue":"q","diagnostics":[{"code":"X"}]}}`, a.Body)
	a = g.Do("PUT", "/v1/flows/flow_1", `{"content":{}}`)
	require.Equal(t, 409, a.Code)
	require.JSONEq(t, `{"detail":{"error":"version_conflict","message":"it is \"newer\"","fix":"read it","current_version":"0.1.4"}}`, a.Body)
	require.Empty(t, a.Header.Get("ETag"))
	a = g.Do("GET", "/v1/flows/flow_1", "")
	require.JSONEq(t, `{"detail":{"error":"not_found","message":"there is no flow"}}`, a.Body)
	a = g.Do("GET", "/api/v1/flows", "", "Authorization", "")
	require.Equal(t, 401, a.Code)
	require.JSONEq(t, `{"detail":{"error":"auth_token_missing","message":"send an Authorization header: Bearer TOKEN"}}`, a.Body)
	a = g.Do("POST", "/v1/flows", `{"name":"x","content":[1]}`)
	require.Equal(t, 422, a.Code)
	require.JSONEq(t, `{"detail":{"error":"validation_error","message":"content: must be an object, not a list","details":[{"field":"content","message":"must be an object, not a list"}]}}`, a.Body)
	a = g.Do("POST", "/v1/flows", `{"name":"x","content":`+strings.Repeat(`{"a":`, 65)+"1"+strings.Repeat("}", 65)+`}`)
	require.Equal(t, 422, a.Code)
	a = g.Do("PATCH", "/v1/flows/flow_1", `{}`)
	require.Equal(t, http.StatusMethodNotAllowed, a.Code)
	require.Contains(t, a.Body, `{"detail":{"error":"method_not_allowed"`)
}

// Paths and methods below those of flows that there are not are refused in the form of flows.
func TestFlows_unknownPaths(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(scriptedFlows(t)))
	for _, tc := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/v1/flows/flow_1/nothing", 404},
		{"GET", "/api/v1/flows/flow_1/versions/", 404},
		{"PATCH", "/v1/flows/flow_1", 405},
		{"GET", "/v1/flows/..%2F..%2Fetc%2Fpasswd/versions/", 404},
	} {
		a := g.Do(tc.method, tc.path, "")
		require.Equal(t, tc.code, a.Code, a.Body)
		require.Contains(t, a.Body, `{"detail":{"error":`)
	}
	require.Contains(t, g.Do("GET", "/v1/nothing", "").Body, `"status":"error"`)
}
