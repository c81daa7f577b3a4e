package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/flows"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

type routeCase struct {
	method, path, body string
	code               int
	rpc                string
	request            proto.Message
}

// emptyBody returns no body where a route may come without, and an empty one where it takes one.
func emptyBody(m *methods.Method, at methods.Route) string {
	if gateway.TakesBody(at) && !at.OptionalBody && gateway.HasOtherFields(m.NewRequest(), at.Field) {
		return "{}"
	}
	return ""
}

// declaredRequest returns the request that the path of a route makes.
func declaredRequest(m *methods.Method, at methods.Route) proto.Message {
	request := m.NewRequest()
	if at.Field != "" {
		r := request.ProtoReflect()
		segments := strings.Split(pathOf(rest.Route{Route: at}), "/")
		i := slices.IndexFunc(strings.Split(at.Path, "/"), segmentName.MatchString)
		r.Set(r.Descriptor().Fields().ByName(protoreflect.Name(at.Field)), protoreflect.ValueOfString(segments[i]))
	}
	return request
}

// routeOf returns the route that a path is of.
func routeOf(t *testing.T, method, path string) rest.Route {
	path, _, _ = strings.Cut(path, "?")
	of := func(r rest.Route) bool {
		return r.Method == method && slices.EqualFunc(strings.Split(r.Path, "/"), strings.Split(path, "/"), func(of, segment string) bool {
			return of == segment || segmentName.MatchString(of)
		})
	}
	i := slices.IndexFunc(allRoutes(), of)
	require.GreaterOrEqual(t, i, 0, "%s %s is no route", method, path)
	return allRoutes()[i]
}

// Each route, with the permission that docs/use/rest.md says, and its call. Routes that the protos declare whole have a case that
// is made from the declaration, too.
func TestRoutes(t *testing.T) {
	const p = rest.Prefix
	cases := []routeCase{
		{
			"GET", p + "/jobs?status=TRAINING&status=PENDING&queue=q&label=a%3Db&label=c%3D&page_size=100&page_token=t&order_by=priority+desc", "", 200, "ListJobs",
			&v1.ListJobsRequest{
				Status: []v1.JobStatus_Value{v1.JobStatus_TRAINING, v1.JobStatus_PENDING}, Queue: "q", Label: []string{"a=b", "c="},
				PageSize: 100, PageToken: "t", OrderBy: "priority desc",
			},
		},
		{"GET", p + "/jobs", "", 200, "ListJobs", &v1.ListJobsRequest{}},
		{
			"GET", p + "/jobs?search=lora&user=me&fields=job_id,+name,name&facets=true", "", 200, "ListJobs",
			&v1.ListJobsRequest{Search: "lora", User: "me", Fields: []string{"job_id", "name"}, Facets: true},
		},
		{"POST", p + "/jobs", `{"name":"x"}`, 201, "SubmitJob", &v1.SubmitJobRequest{Name: "x"}},
		{"GET", p + "/jobs/job_1/explain", "", 200, "ExplainJob", &v1.ExplainJobRequest{JobId: "job_1"}},
		{
			"GET", p + "/jobs/job_1/explain?what_if=gpus%3D4&what_if=queue%3Dq&remedies=false", "", 200, "ExplainJob",
			&v1.ExplainJobRequest{JobId: "job_1", WhatIf: []string{"gpus=4", "queue=q"}, Remedies: proto.Bool(false)},
		},
		{
			"GET", p + "/jobs/job_1/explain?at=12&what_if=gpus%3D4", "", 200, "ExplainJob",
			&v1.ExplainJobRequest{JobId: "job_1", WhatIf: []string{"gpus=4"}, AtIndex: 12},
		},
		{
			"GET", p + "/jobs/job_1/explain?at=2026-01-02T03:04:05Z", "", 200, "ExplainJob",
			&v1.ExplainJobRequest{JobId: "job_1", AtTime: timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))},
		},
		{"POST", p + "/jobs/job_1/cancel", "", 200, "CancelJob", &v1.CancelJobRequest{JobId: "job_1"}},
		{"POST", p + "/jobs/job_1/cancel", `{"reason":"r"}`, 200, "CancelJob", &v1.CancelJobRequest{JobId: "job_1", Reason: "r"}},
		{"POST", p + "/jobs/job_1/pause", `{"save_checkpoint":false}`, 200, "PauseJob", &v1.PauseJobRequest{JobId: "job_1", SaveCheckpoint: proto.Bool(false)}},
		{"POST", p + "/jobs/job_1/resume", `{"checkpoint_id":"ckpt_1"}`, 200, "ResumeJob", &v1.ResumeJobRequest{JobId: "job_1", CheckpointId: "ckpt_1"}},
		{
			"POST", p + "/jobs/job_1/retry", `{"modify_resources":{"gpu_type":"H100"}}`, 200, "RetryJob",
			&v1.RetryJobRequest{JobId: "job_1", ModifyResources: &v1.ResourceConfig{GpuType: "H100"}},
		},
		{
			"GET", p + "/jobs/job_1/tasks?status=FAILED&page_size=7&page_token=3", "", 200, "ListJobTasks",
			&v1.ListJobTasksRequest{JobId: "job_1", Status: []v1.JobStatus_Value{v1.JobStatus_FAILED}, PageSize: 7, PageToken: "3"},
		},
		{"POST", p + "/jobs/job_1zz[7]/cancel", "", 200, "CancelJob", &v1.CancelJobRequest{JobId: "job_1zz[7]"}},
		{
			"GET", p + "/jobs/job_1/metrics/series?points=50&name=loss&name=gpu0.power_watts&attempt=2&rank=0&rank=1", "", 200, "GetJobSeries",
			&v1.GetJobSeriesRequest{JobId: "job_1", Points: 50, Names: []string{"loss", "gpu0.power_watts"}, Attempts: []int32{2}, Ranks: []int32{0, 1}},
		},
		{
			"POST", p + "/cluster/nodes/n1/drain", `{"force":true,"deadline_seconds":60,"reason":"disk"}`, 200, "DrainNode",
			&v1.DrainNodeRequest{NodeId: "n1", Force: true, DeadlineSeconds: 60, Reason: "disk"},
		},
		{
			"POST", p + "/cluster/nodes/n1/drain", `{"dry_run":true}`, 200, "DrainNode",
			&v1.DrainNodeRequest{NodeId: "n1", DryRun: true},
		},
		{"POST", p + "/nodes/n1/drain", "", 200, "DrainNode", &v1.DrainNodeRequest{NodeId: "n1"}},
		{"GET", p + "/queue?queue=q&limit=7", "", 200, "GetQueue", &v1.GetQueueRequest{Queue: "q", Limit: 7}},
		{"PUT", p + "/queues/fast", `{"weight":1}`, 200, "PutQueue", &v1.PutQueueRequest{Name: "fast", Weight: proto.Int32(1)}},
		{"PUT", p + "/queues/fast", `{"weight":0}`, 200, "PutQueue", &v1.PutQueueRequest{Name: "fast", Weight: proto.Int32(0)}},
		{"GET", p + "/launchers/CUSTOM", "", 200, "ListLaunchers", &v1.ListLaunchersRequest{}},
		{
			"PUT", p + "/launchers/CUSTOM", `{"argv":["a","{config}"],"environment":{"A":"b"}}`, 200, "PutLauncher",
			&v1.PutLauncherRequest{Launcher: &v1.Launcher{Framework: "CUSTOM", Argv: []string{"a", "{config}"}, Environment: map[string]string{"A": "b"}}},
		},
		{
			"POST", p + "/data/validate", `{"sources":[{"path":"/d","format":"jsonl"}],"node_id":"n1"}`, 200, "ValidateData",
			&v1.ValidateDataRequest{Sources: []*v1.DataSource{{Path: "/d", Format: "jsonl"}}, NodeId: "n1"},
		},
		{"PUT", p + "/queues/fast", `{"max_gpus":8}`, 200, "PutQueue", &v1.PutQueueRequest{Name: "fast", MaxGpus: 8}},
		{"GET", p + "/policy", "", 200, "GetPolicy", &v1.GetPolicyRequest{}},
		{
			"PUT", p + "/policy", `{"order":"SHORTEST","preemption":{"ratio":4}}`, 200, "PutPolicy",
			&v1.PutPolicyRequest{Policy: &v1.Policy{Order: proto.String("SHORTEST"), Preemption: &v1.PreemptionPolicy{Ratio: proto.Int32(4)}}},
		},
		{"GET", p + "/tenants/acme/quota", "", 200, "GetQuota", &v1.GetQuotaRequest{TenantId: "acme"}},
		{
			"PUT", p + "/tenants/acme/quota", `{"max_gpus":8,"max_running_jobs":0}`, 200, "PutQuota",
			&v1.PutQuotaRequest{Quota: &v1.Quota{TenantId: "acme", MaxGpus: proto.Int32(8), MaxRunningJobs: proto.Int32(0)}},
		},
		{
			"PUT", p + "/maintenance/kernel", `{"nodes":["n*"],"duration_seconds":3600}`, 200, "PutMaintenance",
			&v1.PutMaintenanceRequest{Name: "kernel", Nodes: []string{"n*"}, DurationSeconds: 3600},
		},
		{
			"PUT", p + "/schedules/nightly", `{"cron":"30 2 * * *","timezone":"Europe/Berlin","overlap":"allow","start_within_seconds":60,"paused":true,"job":{"name":"n"}}`,
			200, "PutSchedule", &v1.PutScheduleRequest{
				Name: "nightly", Cron: "30 2 * * *", Timezone: "Europe/Berlin", Overlap: "allow", StartWithinSeconds: 60, Paused: true,
				Job: &v1.SubmitJobRequest{Name: "n"},
			},
		},
		{
			"PUT", p + "/reservations/paper", `{"gpus":8,"gpu_type":"H100","duration_seconds":3600}`, 200, "PutReservation",
			&v1.PutReservationRequest{Name: "paper", Gpus: 8, GpuType: "H100", DurationSeconds: 3600},
		},
		{"POST", rest.Modules + "scaicore/cores", `{"name":"greet"}`, 201, "CreateCore", &v1.CreateCoreRequest{Name: "greet"}},
		{"PUT", rest.Modules + "scaicore/cores/greet", `{"name":"hello"}`, 200, "UpdateCore", &v1.UpdateCoreRequest{CoreId: "greet", Name: "hello"}},
		{"DELETE", p + "/tenants/acme/quota", "", 200, "DeleteQuota", &v1.DeleteQuotaRequest{TenantId: "acme"}},
		{
			"GET", p + "/audit?user_id=u&action=node&object=n1&outcome=OK&since=2026-01-31T08:00:00Z&until=2026-02-01T08:00:00Z&page_size=1000&page_token=t",
			"", 200, "ListAuditRecords",
			&v1.ListAuditRecordsRequest{
				UserId: "u", Action: "node", Object: "n1", Outcome: "OK", PageSize: 1000, PageToken: "t",
				Since: &timestamppb.Timestamp{Seconds: 1769846400}, Until: &timestamppb.Timestamp{Seconds: 1769932800},
			},
		},
	}
	// These have tests of their own.
	tested := map[string]bool{"POST /v1/stream-tickets": true, "GET /v1/sessions": true, "DELETE /v1/sessions/{id}": true}
	for _, own := range []string{
		"POST /tokens", "GET /tokens", "DELETE /tokens/{id}", "POST /evaluations", "GET /evaluations", "GET /evaluations/compare", "GET /checkpoints/{id}/download",
		"GET /uploads", "POST /uploads", "POST /uploads/packs",
		"POST /v1/modules/scaicore/cores/{core_id}/invoke", "GET /v1/modules/scaicore/cores", "GET /v1/modules/scaicore/executions",
		"GET /v1/modules/scaicore/checkpoints", "GET /v1/modules/scaicore/events",
	} {
		tested[own] = true
	}
	for _, r := range allRoutes() { // Those of flows that are served in a way of their own: TestFlows_routes.
		if flows.Has(r.Path) {
			tested[r.Name] = true
		}
	}
	for _, e := range new(gateway.Server).Endpoints() {
		if m := methods.Of(e.RPC); e.Own.Path == "" && e.Serve == nil && e.Query == nil {
			for _, at := range m.Routes {
				if at.Variant == e.Variant {
					cases = append(cases, routeCase{at.Method, pathOf(rest.Route{Route: at}), emptyBody(m, at), at.Code, gatewaytest.ShortName(m), declaredRequest(m, at)})
				}
			}
		}
	}
	documented := documentedPermissions(t)
	for _, tc := range cases {
		t.Run(tc.method+" "+tc.path+" "+tc.body, func(t *testing.T) {
			c := gatewaytest.NewCoordinator(t)
			config := gatewaytest.Config(c)
			r := routeOf(t, tc.method, tc.path)
			tested[r.Name] = true
			enough := permissionsOf(documented, r)
			permissions := append([]string{auth.PermissionOperator}, auth.AllPermissions...)
			for _, permission := range permissions {
				config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "only-" + permission, Tenant: "acme", User: "ann", Permissions: []string{permission}})
			}
			g := gatewaytest.NewGate(t, config)
			for _, permission := range permissions {
				if slices.Contains(enough, permission) {
					continue
				}
				a := g.Do(tc.method, tc.path, tc.body, "Authorization", "Bearer only-"+permission)
				require.Equal(t, 403, a.Code)
				require.Equal(t, "AUTHZ_PERMISSION_DENIED", a.Error.Code)
			}
			require.Empty(t, c.Calls(), "a denied request causes no call")
			a := g.Do(tc.method, tc.path, tc.body, "Authorization", "Bearer only-"+enough[0])
			require.Equal(t, tc.code, a.Code, a.Body)
			require.Equal(t, "ok", a.Status)
			require.Equal(t, "42", a.Header.Get("X-Mind-Index"))
			require.NotEmpty(t, a.Meta.RequestID)
			require.Equal(t, a.Meta.RequestID, a.Header.Get("X-Request-Id"))
			calls := c.Calls()
			require.Len(t, calls, 1)
			require.Equal(t, tc.rpc, calls[0].Method)
			require.True(t, proto.Equal(tc.request, calls[0].Request.(proto.Message)), "%v", calls[0].Request)
			md := calls[0].MD
			require.Equal(t, []string{"secret"}, md[status.KeySecret])
			require.Equal(t, []string{"acme"}, md[status.KeyTenant])
			require.Equal(t, []string{"ann"}, md[status.KeyUser])
			require.Equal(t, []string{a.Meta.RequestID}, md[status.KeyRequestID])
			require.Equal(t, tc.method != "GET" && tc.rpc != "ValidateData", len(md[status.KeyIdempotency]) == 1, "writes carry a key, reads do not")
		})
	}
	for _, r := range allRoutes() {
		if !r.Stream && !r.Batch && !callNobody[r.Name] {
			require.True(t, tested[r.Name], "%s has no test", r.Name)
		}
	}
}

func TestAuthentication(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	for name, tc := range map[string]struct{ header, code string }{
		"no header":      {"", "AUTH_TOKEN_MISSING"},
		"another scheme": {"Basic dTpw", "AUTH_TOKEN_INVALID"},
		"no token":       {"Bearer ", "AUTH_TOKEN_INVALID"},
		"unknown token":  {"Bearer nobody", "AUTH_TOKEN_INVALID"},
		"a rest.Prefix":  {"Bearer " + gatewaytest.TokenAll[:len(gatewaytest.TokenAll)-1], "AUTH_TOKEN_INVALID"},
	} {
		for _, path := range []string{rest.Prefix + "/jobs", "/v1/me"} {
			a := g.Do("GET", path, "", "Authorization", tc.header)
			require.Equal(t, 401, a.Code, name)
			require.Equal(t, tc.code, a.Error.Code, name)
			require.Equal(t, "Bearer", a.Header.Get("WWW-Authenticate"))
		}
	}
	require.Equal(t, 200, g.Do("GET", rest.Prefix+"/jobs", "", "Authorization", "bearer "+gatewaytest.TokenAll).Code, "the scheme has no case")
	// 401 and 403 come before any fault of the body.
	require.Equal(t, 401, g.Do("POST", rest.Prefix+"/jobs", "{", "Authorization", "").Code)
	require.Equal(t, 403, g.Do("POST", rest.Prefix+"/jobs", "{", "Authorization", "Bearer "+gatewaytest.TokenViewer).Code)
	me := g.Do("GET", "/v1/me", "", "Authorization", "Bearer "+gatewaytest.TokenViewer)
	require.JSONEq(t, `{"tenant_id":"acme","user_id":"vic","permissions":["scaimind:view"]}`, string(me.Data))
	require.JSONEq(t, string(me.Data), string(g.Do("GET", "/v1/auth/me", "", "Authorization", "Bearer "+gatewaytest.TokenViewer).Data), "its other published name")
	require.JSONEq(t, `{"tenant_id":"acme","user_id":"nat","permissions":[]}`, string(g.Do("GET", "/v1/me", "", "Authorization", "Bearer "+gatewaytest.TokenNone).Data))
}

type broken struct{}

func (broken) Authenticate(context.Context, string) (*auth.Caller, error) {
	return nil, fmt.Errorf("the token service is down")
}

func TestAuthentication_thatCannotTell(t *testing.T) {
	config := gatewaytest.Config(gatewaytest.NewCoordinator(t))
	config.Authenticator = broken{}
	a := gatewaytest.NewGate(t, config).Do("GET", rest.Prefix+"/jobs", "")
	require.Equal(t, 503, a.Code)
	require.NotContains(t, a.Body, "down")
}
