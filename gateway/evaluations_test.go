package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// The permissions for evaluations; reading was published under both.
var (
	evaluate        = []string{auth.PermissionEvaluate}
	viewEvaluations = []string{auth.PermissionView, auth.PermissionEvaluate}
)

// The routes of evaluations, their permissions and calls. Either of two permissions allows reading, so they are not in
// the table of TestRoutes.
func TestEvaluations_routes(t *testing.T) {
	for _, tc := range []struct {
		method, path, body string
		anyOf              []string
		code               int
		rpc                string
		request            proto.Message
	}{
		{
			"POST", "/evaluations", `{"job_id":"job_1","checkpoint_id":"","model_uri":"scaidrive://acme/models/support-v3/","benchmarks":[
				{"name":"mmlu","num_samples":100,"parameters":{"temperature":"0.0"}},{"name":"own","dataset":"s3://b/own.jsonl"}]}`,
			evaluate, 201, "SubmitEvaluation",
			&v1.SubmitEvaluationRequest{EvaluationConfig: &v1.EvaluationConfig{
				JobId: "job_1", ModelUri: "scaidrive://acme/models/support-v3/", Benchmarks: []*v1.Benchmark{
					{Name: "mmlu", NumSamples: 100, Parameters: map[string]string{"temperature": "0.0"}}, {Name: "own", Dataset: "s3://b/own.jsonl"},
				},
			}},
		},
		{
			"POST", "/evaluations", `{"name":"n","model_uri":"hf://a/b","benchmarks":[{"name":"mmlu"}],"resource_config":{"gpu_count":2},"scheduling_config":{"priority":7},"labels":{"a":"b"}}`,
			evaluate, 201, "SubmitEvaluation",
			&v1.SubmitEvaluationRequest{
				EvaluationConfig: &v1.EvaluationConfig{ModelUri: "hf://a/b", Benchmarks: []*v1.Benchmark{{Name: "mmlu"}}}, Name: "n",
				ResourceConfig: &v1.ResourceConfig{GpuCount: 2}, SchedulingConfig: &v1.SchedulingConfig{Priority: proto.Int32(7)}, Labels: map[string]string{"a": "b"},
			},
		},
		{"GET", "/evaluations", "", viewEvaluations, 200, "ListEvaluations", &v1.ListEvaluationsRequest{}},
		{
			"GET", "/evaluations?status=EVALUATING&status=QUEUED&job_id=job_1&page_size=7&page_token=t", "", viewEvaluations, 200, "ListEvaluations",
			&v1.ListEvaluationsRequest{Status: []v1.JobStatus_Value{v1.JobStatus_EVALUATING, v1.JobStatus_QUEUED}, JobId: "job_1", PageSize: 7, PageToken: "t"},
		},
		{"GET", "/evaluations/eval_1", "", viewEvaluations, 200, "GetEvaluation", &v1.GetEvaluationRequest{EvaluationId: "eval_1"}},
		{
			"GET", "/evaluations/compare?ids=eval_1,eval_2&ids=eval_3", "", viewEvaluations, 200, "CompareEvaluations",
			&v1.CompareEvaluationsRequest{EvaluationIds: []string{"eval_1", "eval_2", "eval_3"}},
		},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			c := gatewaytest.NewCoordinator(t)
			config := gatewaytest.Config(c)
			for _, permission := range auth.AllPermissions {
				config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "only-" + permission, Tenant: "acme", User: "ann", Permissions: []string{permission}})
			}
			g := gatewaytest.NewGate(t, config)
			for _, permission := range auth.AllPermissions {
				before := len(c.Calls())
				a := g.Do(tc.method, rest.Prefix+tc.path, tc.body, "Authorization", "Bearer only-"+permission)
				if !strings.Contains(strings.Join(tc.anyOf, " "), permission) {
					require.Equal(t, 403, a.Code, permission)
					require.Len(t, c.Calls(), before)
					continue
				}
				require.Equal(t, tc.code, a.Code, a.Body)
				require.Equal(t, "42", a.Header.Get("X-Mind-Index"))
				call := c.Calls()[before]
				require.Equal(t, tc.rpc, call.Method)
				require.True(t, proto.Equal(tc.request, call.Request.(proto.Message)), "%v", call.Request)
				require.Equal(t, []string{"acme"}, call.MD[status.KeyTenant])
				require.Equal(t, tc.method != "GET", len(call.MD[status.KeyIdempotency]) == 1, "writes carry a key, reads do not")
			}
		})
	}
}

func TestEvaluations_badInput(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	for name, tc := range map[string]struct{ method, path, body, field string }{
		"an empty body":        {"POST", "/evaluations", ``, "body"},
		"an unknown field":     {"POST", "/evaluations", `{"benchmark":[]}`, "benchmark"},
		"the nested form":      {"POST", "/evaluations", `{"evaluation_config":{}}`, "evaluation_config"},
		"benchmarks as names":  {"POST", "/evaluations", `{"benchmarks":["mmlu"]}`, "benchmarks[0]"},
		"samples as text":      {"POST", "/evaluations", `{"benchmarks":[{"name":"a","num_samples":"x"}]}`, "benchmarks[0].num_samples"},
		"parameters as number": {"POST", "/evaluations", `{"benchmarks":[{"name":"a","parameters":{"t":0.5}}]}`, "benchmarks[0].parameters.t"},
		"an unknown status":    {"GET", "/evaluations?status=DONE", ``, "status"},
		"a page too large":     {"GET", "/evaluations?page_size=101", ``, "page_size"},
		"one to compare":       {"GET", "/evaluations/compare?ids=eval_1,", ``, "ids"},
		"none to compare":      {"GET", "/evaluations/compare", ``, "ids"},
	} {
		t.Run(name, func(t *testing.T) {
			a := g.Do(tc.method, rest.Prefix+tc.path, tc.body)
			require.Equal(t, 422, a.Code, a.Body)
			require.Equal(t, "VALIDATION_ERROR", a.Error.Code)
			require.Len(t, a.Error.Details, 1)
			require.Equal(t, tc.field, a.Error.Details[0].Field)
		})
	}
	require.Empty(t, c.Calls())
}
