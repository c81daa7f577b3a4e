package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/flows"
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
	if takesBody(at) && !at.OptionalBody && hasOtherFields(m.NewRequest(), at.Field) {
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
	const p = prefix
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
		{"POST", corePaths + "/cores", `{"name":"greet"}`, 201, "CreateCore", &v1.CreateCoreRequest{Name: "greet"}},
		{"PUT", corePaths + "/cores/greet", `{"name":"hello"}`, 200, "UpdateCore", &v1.UpdateCoreRequest{CoreId: "greet", Name: "hello"}},
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
	for _, e := range new(server).endpoints() {
		if m := methods.Of(e.RPC); e.Own.Path == "" && e.Serve == nil && e.Query == nil {
			for _, at := range m.Routes {
				if at.Variant == e.Variant {
					cases = append(cases, routeCase{at.Method, pathOf(rest.Route{Route: at}), emptyBody(m, at), at.Code, shortName(m), declaredRequest(m, at)})
				}
			}
		}
	}
	documented := documentedPermissions(t)
	for _, tc := range cases {
		t.Run(tc.method+" "+tc.path+" "+tc.body, func(t *testing.T) {
			c := newScripted(t)
			config := testConfig(c)
			r := routeOf(t, tc.method, tc.path)
			tested[r.Name] = true
			enough := permissionsOf(documented, r)
			permissions := append([]string{auth.PermissionOperator}, auth.AllPermissions...)
			for _, permission := range permissions {
				config.Tokens = append(config.Tokens, StaticToken{Token: "only-" + permission, Tenant: "acme", User: "ann", Permissions: []string{permission}})
			}
			g := newGate(t, config)
			for _, permission := range permissions {
				if slices.Contains(enough, permission) {
					continue
				}
				a := g.do(tc.method, tc.path, tc.body, "Authorization", "Bearer only-"+permission)
				require.Equal(t, 403, a.code)
				require.Equal(t, "AUTHZ_PERMISSION_DENIED", a.Error.Code)
			}
			require.Empty(t, c.seen(), "a denied request causes no call")
			a := g.do(tc.method, tc.path, tc.body, "Authorization", "Bearer only-"+enough[0])
			require.Equal(t, tc.code, a.code, a.body)
			require.Equal(t, "ok", a.Status)
			require.Equal(t, "42", a.header.Get("X-Mind-Index"))
			require.NotEmpty(t, a.Meta.RequestID)
			require.Equal(t, a.Meta.RequestID, a.header.Get("X-Request-Id"))
			calls := c.seen()
			require.Len(t, calls, 1)
			require.Equal(t, tc.rpc, calls[0].method)
			require.True(t, proto.Equal(tc.request, calls[0].request.(proto.Message)), "%v", calls[0].request)
			md := calls[0].md
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
	c := newScripted(t)
	g := newGate(t, testConfig(c))
	for name, tc := range map[string]struct{ header, code string }{
		"no header":      {"", "AUTH_TOKEN_MISSING"},
		"another scheme": {"Basic dTpw", "AUTH_TOKEN_INVALID"},
		"no token":       {"Bearer ", "AUTH_TOKEN_INVALID"},
		"unknown token":  {"Bearer nobody", "AUTH_TOKEN_INVALID"},
		"a prefix":       {"Bearer " + tokenAll[:len(tokenAll)-1], "AUTH_TOKEN_INVALID"},
	} {
		for _, path := range []string{prefix + "/jobs", "/v1/me"} {
			a := g.do("GET", path, "", "Authorization", tc.header)
			require.Equal(t, 401, a.code, name)
			require.Equal(t, tc.code, a.Error.Code, name)
			require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
		}
	}
	require.Equal(t, 200, g.do("GET", prefix+"/jobs", "", "Authorization", "bearer "+tokenAll).code, "the scheme has no case")
	// 401 and 403 come before any fault of the body.
	require.Equal(t, 401, g.do("POST", prefix+"/jobs", "{", "Authorization", "").code)
	require.Equal(t, 403, g.do("POST", prefix+"/jobs", "{", "Authorization", "Bearer "+tokenViewer).code)
	me := g.do("GET", "/v1/me", "", "Authorization", "Bearer "+tokenViewer)
	require.JSONEq(t, `{"tenant_id":"acme","user_id":"vic","permissions":["scaimind:view"]}`, string(me.Data))
	require.JSONEq(t, string(me.Data), string(g.do("GET", "/v1/auth/me", "", "Authorization", "Bearer "+tokenViewer).Data), "its other published name")
	require.JSONEq(t, `{"tenant_id":"acme","user_id":"nat","permissions":[]}`, string(g.do("GET", "/v1/me", "", "Authorization", "Bearer "+tokenNone).Data))
}

type broken struct{}

func (broken) Authenticate(context.Context, string) (*auth.Caller, error) {
	return nil, fmt.Errorf("the token service is down")
}

func TestAuthentication_thatCannotTell(t *testing.T) {
	config := testConfig(newScripted(t))
	config.Authenticator = broken{}
	a := newGate(t, config).do("GET", prefix+"/jobs", "")
	require.Equal(t, 503, a.code)
	require.NotContains(t, a.body, "down")
}

func TestBadInput(t *testing.T) {
	c := newScripted(t)
	g := newGate(t, testConfig(c))
	cases := map[string]struct {
		method, path, body string
		headers            []string
		code               int
		errorCode, field   string
	}{
		"malformed JSON":          {"POST", "/jobs", `{"name":`, nil, 422, "VALIDATION_ERROR", "body"},
		"empty body":              {"POST", "/jobs", ``, nil, 422, "VALIDATION_ERROR", "body"},
		"no name":                 {"POST", "/jobs", `{"command_config":{"argv":["x"]}}`, nil, 422, "VALIDATION_ERROR", "name"},
		"null name":               {"POST", "/jobs", `{"name":null}`, nil, 422, "VALIDATION_ERROR", "name"},
		"unknown enum":            {"POST", "/jobs", `{"name":"x","training_config":{"training_type":"X"}}`, nil, 422, "VALIDATION_ERROR", "training_config.training_type"},
		"unknown field of cancel": {"POST", "/jobs/j/cancel", `{"resaon":"x"}`, nil, 422, "VALIDATION_ERROR", "resaon"},
		"job_id in the body":      {"POST", "/jobs/j/cancel", `{"job_id":"k"}`, nil, 422, "VALIDATION_ERROR", "job_id"},
		"2 MiB":                   {"POST", "/jobs", `{"name":"` + strings.Repeat("x", 2<<20) + `"}`, nil, 413, "PAYLOAD_TOO_LARGE", ""},
		"just over 1 MiB":         {"POST", "/jobs", `{"name":"` + strings.Repeat("x", 1<<20-10) + `"}`, nil, 413, "PAYLOAD_TOO_LARGE", ""},
		"batch over 8 MiB":        {"POST", "/jobs/batch", strings.Repeat(" ", 8<<20+1), nil, 413, "PAYLOAD_TOO_LARGE", ""},
		"unknown status":          {"GET", "/jobs?status=RUNNING", "", nil, 422, "VALIDATION_ERROR", "status"},
		"page_size 0":             {"GET", "/jobs?page_size=0", "", nil, 422, "VALIDATION_ERROR", "page_size"},
		"at in words":             {"GET", "/jobs/job_1/explain?at=yesterday", "", nil, 422, "VALIDATION_ERROR", "at"},
		"at entry 0":              {"GET", "/jobs/job_1/explain?at=0", "", nil, 422, "VALIDATION_ERROR", "at"},
		"page_size 101":           {"GET", "/jobs?page_size=101", "", nil, 422, "VALIDATION_ERROR", "page_size"},
		"page_size ten":           {"GET", "/jobs?page_size=ten", "", nil, 422, "VALIDATION_ERROR", "page_size"},
		"label without a value":   {"GET", "/jobs?label=team", "", nil, 422, "VALIDATION_ERROR", "label"},
		"queue limit":             {"GET", "/queue?limit=1001", "", nil, 422, "VALIDATION_ERROR", "limit"},
		"tail":                    {"GET", "/jobs/j/logs?tail=-1", "", nil, 422, "VALIDATION_ERROR", "tail"},
		"follow":                  {"GET", "/jobs/j/logs?follow=maybe", "", nil, 422, "VALIDATION_ERROR", "follow"},
		"since":                   {"GET", "/jobs/j/logs?since=yesterday", "", nil, 422, "VALIDATION_ERROR", "since"},
		"long key":                {"POST", "/jobs", `{"name":"x"}`, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 422, "VALIDATION_ERROR", "Idempotency-Key"},
		"key with a tab":          {"POST", "/jobs", `{"name":"x"}`, []string{"Idempotency-Key", "a\tb"}, 422, "VALIDATION_ERROR", "Idempotency-Key"},
		"key beyond ASCII":        {"POST", "/jobs", `{"name":"x"}`, []string{"Idempotency-Key", "é"}, 422, "VALIDATION_ERROR", "Idempotency-Key"},
		"key like a minted one":   {"POST", "/jobs", `{"name":"x"}`, []string{"Idempotency-Key", "auto:1"}, 422, "VALIDATION_ERROR", "Idempotency-Key"},
		"timeout of 0":            {"GET", "/jobs", "", []string{"X-Request-Timeout", "0"}, 422, "VALIDATION_ERROR", "X-Request-Timeout"},
		"timeout of NaN":          {"GET", "/jobs", "", []string{"X-Request-Timeout", "NaN"}, 422, "VALIDATION_ERROR", "X-Request-Timeout"},
		"timeout of a day":        {"GET", "/jobs", "", []string{"X-Request-Timeout", "86400"}, 422, "VALIDATION_ERROR", "X-Request-Timeout"},
		"id that is no UTF-8":     {"GET", "/jobs/%ff%fe", "", nil, 404, "NOT_FOUND", ""},
		"query cut off in a %":    {"GET", "/audit?tenant_id=50%", "", nil, 422, "VALIDATION_ERROR", "query"},
		"query with a semicolon":  {"GET", "/jobs?queue=a;status=FAILED", "", nil, 422, "VALIDATION_ERROR", "query"},
		"query that is no UTF-8":  {"GET", "/queue?queue=%ff", "", nil, 422, "VALIDATION_ERROR", "queue"},
		"body that is no UTF-8":   {"POST", "/jobs", "{\"name\":\"\xff\xfe\"}", nil, 422, "VALIDATION_ERROR", ""},
		"consistency in a query":  {"GET", "/jobs?consistency=eventual", "", nil, 422, "VALIDATION_ERROR", "consistency"},
		"misspelt parameter":      {"GET", "/jobs?stauts=FAILED", "", nil, 422, "VALIDATION_ERROR", "stauts"},
		"parameter of another":    {"GET", "/jobs/job_1?page_size=3", "", nil, 422, "VALIDATION_ERROR", "page_size"},
		"parameter of a write":    {"POST", "/jobs/job_1/cancel?reason=x", "", nil, 422, "VALIDATION_ERROR", "reason"},
		"parameter given twice":   {"GET", "/jobs?page_size=1&page_size=2", "", nil, 422, "VALIDATION_ERROR", "page_size"},
		"consistency given twice": {"GET", "/jobs?consistency=stale&consistency=stale", "", nil, 422, "VALIDATION_ERROR", "consistency"},
		"at as a power":           {"GET", "/jobs/job_1/explain?at=1e3", "", nil, 422, "VALIDATION_ERROR", "at"},
		"at as a fraction":        {"GET", "/jobs/job_1/explain?at=3.5", "", nil, 422, "VALIDATION_ERROR", "at"},
		"compressed body":         {"POST", "/jobs", "\x1f\x8b", []string{"Content-Encoding", "gzip"}, 415, "UNSUPPORTED_MEDIA_TYPE", ""},
		"consistency":             {"GET", "/jobs", "", []string{"X-Mind-Consistency", "eventual"}, 422, "VALIDATION_ERROR", "X-Mind-Consistency"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := g.do(tc.method, prefix+tc.path, tc.body, tc.headers...)
			require.Equal(t, tc.code, a.code, a.body)
			require.Equal(t, "error", a.Status)
			require.Equal(t, tc.errorCode, a.Error.Code)
			require.NotEmpty(t, a.Error.Message)
			require.NotEmpty(t, a.Meta.RequestID)
			if tc.field != "" {
				require.NotEmpty(t, a.Error.Details)
				require.Equal(t, tc.field, a.Error.Details[0].Field)
				require.NotEmpty(t, a.Error.Details[0].Message)
			}
		})
	}
	require.Empty(t, c.seen(), "none of this reaches a coordinator")
	says := g.do("GET", prefix+"/jobs?stauts=FAILED", "").Error.Message
	require.Equal(t, "stauts: is no parameter of GET /jobs: it takes status, queue, label, page_size, page_token, order_by, search, user, fields, facets, consistency", says)
	require.Equal(t, "page_size: is given twice", g.do("GET", prefix+"/jobs?page_size=1&page_size=2", "").Error.Message)
	name := strings.Repeat("x", 1<<20-len(`{"name":""}`))
	require.Equal(t, 201, g.do("POST", prefix+"/jobs", `{"name":"`+name+`"}`).code, "1 MiB is let through")
}

func TestErrors_everyCode(t *testing.T) {
	const raw = "pq: relation secrets does not exist"
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newScripted(t)
				c.on("GetJob", func(ctx context.Context, _ any) (any, error) {
					_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyIndex, "7"))
					return nil, grpcstatus.Error(code, raw)
				})
				var log bytes.Buffer
				config := testConfig(c)
				config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
				g := newGate(t, config)
				a := g.do("GET", prefix+"/jobs/job_1", "")
				want := status.OfCode(code)
				require.Equal(t, want.HTTP, a.code)
				require.Equal(t, want.Code, a.Error.Code)
				require.NotEmpty(t, a.Error.Message)
				passed := want.Policy == status.Pass
				require.Equal(t, passed, strings.Contains(a.body, raw))
				require.Equal(t, code == codes.Unavailable || code == codes.ResourceExhausted || code == codes.DeadlineExceeded && a.code == 503, a.Error.RetryAfter > 0)
				require.Equal(t, a.Error.RetryAfter > 0, a.header.Get("Retry-After") != "")
				if passed {
					require.Empty(t, log.String())
					return
				}
				var line struct {
					Event     string `json:"event"`
					RequestID string `json:"request_id"`
					RawDetail string `json:"raw_detail"`
				}
				require.NoError(t, json.Unmarshal(bytes.SplitN(log.Bytes(), []byte("\n"), 2)[0], &line))
				require.Equal(t, "scaimind_coordinator_error", line.Event)
				require.Equal(t, a.Meta.RequestID, line.RequestID)
				require.NotEmpty(t, line.RawDetail)
				require.Contains(t, g.do("GET", "/metrics", "").body, `mind_coordinator_errors_total{code="`)
			})
		})
	}
}

// The advice after a failure depends on the request: a read needs no key, and a write that certainly had no effect
// needs none either.
func TestErrors_adviceFitsTheRequest(t *testing.T) {
	const none, late = "no coordinator can accept this now: there is no leader, or none can be reached", "the coordinators did not answer in time"
	const job = `{"name":"x"}`
	for _, tc := range []struct {
		method, path, body, key string
		code                    codes.Code
		outcome                 string
		want                    string
	}{
		{"GET", "/jobs/job_1", "", "", codes.Unavailable, status.NotSent, none + "; try again, or read from one coordinator with consistency=stale"},
		{"GET", "/jobs/job_1?consistency=stale", "", "", codes.Unavailable, status.NotSent, none + "; try again"},
		{"GET", "/jobs/job_1?consistency=stale", "", "", codes.DeadlineExceeded, "", late + "; try again"},
		{"POST", "/jobs", job, "k", codes.Unavailable, status.NotSent, none + "; nothing was changed: try again"},
		{"POST", "/jobs", job, "k", codes.Unavailable, status.Unknown, none + "; it may have taken effect: try again with the same Idempotency-Key"},
		{"POST", "/jobs", job, "", codes.Unavailable, status.Unknown, none + "; it may have taken effect: check before you try again, and send an Idempotency-Key with writes that you may have to repeat"},
		{"POST", "/jobs/job_1/cancel", "", "k", codes.DeadlineExceeded, status.Unknown, late + "; it may have taken effect: try again with the same Idempotency-Key"},
		{"GET", "/jobs/job_1", "", "", codes.Unavailable, status.NodeSilent, "as the test has it"},
	} {
		t.Run(fmt.Sprint(tc.method, tc.path, tc.key, tc.code, tc.outcome), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newScripted(t)
				for _, method := range []string{"GetJob", "SubmitJob", "CancelJob"} {
					c.on(method, func(ctx context.Context, _ any) (any, error) {
						_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyOutcome, tc.outcome))
						return nil, grpcstatus.Error(tc.code, "as the test has it")
					})
				}
				a := newGate(t, testConfig(c)).do(tc.method, prefix+tc.path, tc.body, "Idempotency-Key", tc.key)
				require.Equal(t, tc.want, a.Error.Message)
			})
		})
	}
}

func TestErrors_nobodyIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := testConfig()
		g := newGate(t, config)
		a := g.do("POST", prefix+"/jobs", `{"name":"x"}`)
		require.Equal(t, 503, a.code)
		require.Equal(t, "UNAVAILABLE", a.Error.Code)
		require.Equal(t, 1, a.Error.RetryAfter)
		require.NotContains(t, a.body, "refused", "what the transport says is not for callers")
	})
}

func TestPanic_endsOneRequestOnly(t *testing.T) {
	var log bytes.Buffer
	config := testConfig(newScripted(t))
	config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	g := newGate(t, config)
	x := g.server.handler(&rest.Route{Open: true, Name: "boom", Serve: func(*rest.Request) error { panic("secret detail") }})
	g.handler = x
	a := g.do("GET", "/", "")
	require.Equal(t, 500, a.code)
	require.Equal(t, "INTERNAL", a.Error.Code)
	require.NotContains(t, a.body, "secret detail")
	require.Contains(t, log.String(), "secret detail")
	require.Contains(t, log.String(), a.Meta.RequestID)
}

func TestRequestID(t *testing.T) {
	g := newGate(t, testConfig(newScripted(t)))
	for id, kept := range map[string]bool{
		"req_abc-1.2:3": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false, "with space": false, "<script>": false, "é": false, "": false,
	} {
		a := g.do("GET", "/v1/me", "", "X-Request-Id", id)
		require.Equal(t, kept, a.Meta.RequestID == id, id)
		if !kept {
			require.Regexp(t, `^req_[0-9a-f]{20}$`, a.Meta.RequestID)
		}
	}
}

func TestIdempotencyKey(t *testing.T) {
	c := newScripted(t)
	g := newGate(t, testConfig(c))
	for range 2 {
		g.do("POST", prefix+"/jobs", `{"name":"x"}`, "X-Request-Id", "same")
	}
	g.do("POST", prefix+"/jobs", `{"name":"x"}`, "Idempotency-Key", "my key")
	var keys []string
	for _, call := range c.seen() {
		keys = append(keys, call.md[status.KeyIdempotency]...)
	}
	require.Len(t, keys, 3)
	require.Regexp(t, `^auto:[0-9a-f]{32}$`, keys[0])
	require.Regexp(t, `^auto:[0-9a-f]{32}$`, keys[1])
	require.NotEqual(t, keys[0], keys[1], "two requests with one request id are two requests")
	require.Equal(t, "my key", keys[2])
}

func TestUnknownOutcome_isRepeatedUnderTheSameMintedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted(t), newScripted(t)
		fail := func(ctx context.Context, _ any) (any, error) {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyOutcome, status.Unknown))
			return nil, grpcstatus.Error(codes.Unavailable, "leadership lost")
		}
		for _, c := range []*scripted{a, b} {
			c.on("SubmitJob", func(ctx context.Context, r any) (any, error) {
				if len(a.seen())+len(b.seen()) < 4 {
					return fail(ctx, r)
				}
				return replies["SubmitJob"](), nil
			})
		}
		g := newGate(t, testConfig(a, b))
		require.Equal(t, 201, g.do("POST", prefix+"/jobs", `{"name":"x"}`).code, "a slow answer, not an error")
		var keys []string
		for _, call := range slices.Concat(a.seen(), b.seen()) {
			keys = append(keys, call.md[status.KeyIdempotency]...)
		}
		require.Len(t, keys, 4)
		require.Len(t, slices.Compact(keys), 1)
	})
}

func TestConsistencyAndTimeoutArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		var left time.Duration
		c.on("GetJob", func(ctx context.Context, _ any) (any, error) {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			return replies["GetJob"](), nil
		})
		g := newGate(t, testConfig(c))
		require.Equal(t, 200, g.do("GET", prefix+"/jobs/j", "", "X-Mind-Consistency", "stale", "X-Request-Timeout", "9.5").code)
		require.Equal(t, 200, g.do("GET", prefix+"/jobs/j?consistency=stale", "", "X-Request-Timeout", "9.5").code)
		for _, call := range c.seen() {
			require.Equal(t, []string{"stale"}, call.md[status.KeyConsistency])
		}
		require.LessOrEqual(t, left, 9500*time.Millisecond)
		require.Greater(t, left, time.Duration(0))
	})
}

func TestSubmit_saysWhatItIgnored(t *testing.T) {
	g := newGate(t, testConfig(newScripted(t)))
	a := g.do("POST", prefix+"/jobs", `{"name":"x","training_config":{"mixup":1},"output_config":{"format":"z"}}`)
	require.Equal(t, 201, a.code)
	data := g.data(a)
	require.Equal(t, "job_1", data["job_id"])
	require.Equal(t, "PENDING", data["status"])
	require.Equal(t, "ignored unknown fields: training_config.mixup, output_config.format", data["message"])
	require.Nil(t, data["estimated_wait_seconds"])
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		g := newGate(t, testConfig(c))
		a := g.do("GET", "/health", "", "Authorization", "")
		require.Equal(t, 200, a.code)
		require.JSONEq(t, `{"status":"ok"}`, a.body)
		a = g.do("GET", "/health/ready", "", "Authorization", "")
		require.Equal(t, 200, a.code)
		require.JSONEq(t, `{"status":"ready","checks":{"gateway":"ok","coordinators":"ok","leader":"ok"}}`, a.body)
		g.server.draining.Store(true)
		a = g.do("GET", "/health/ready", "", "Authorization", "")
		require.Equal(t, 503, a.code)
		require.Equal(t, 200, g.do("GET", "/health", "").code)
	})
}

func TestHealth_noCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		c.on("ListQueues", func(context.Context, any) (any, error) {
			return nil, grpcstatus.Error(codes.Unauthenticated, "wrong secret")
		})
		a := newGate(t, testConfig(c)).do("GET", "/health/ready", "")
		require.Equal(t, 503, a.code)
		require.JSONEq(t, `{"status":"not_ready","checks":{"gateway":"ok","coordinators":"UNAUTHENTICATED","leader":"unknown"}}`, a.body)
	})
}

func TestMetrics(t *testing.T) {
	g := newGate(t, testConfig(newScripted(t)))
	g.do("GET", prefix+"/jobs/job_1", "")
	g.do("GET", prefix+"/jobs/job_2", "")
	g.do("GET", prefix+"/nope", "")
	body := g.do("GET", "/metrics", "", "Authorization", "").body
	require.Contains(t, body, `mind_gateway_requests_total{code="200",route="GET /jobs/{id}"} 2`)
	require.Contains(t, body, `mind_gateway_requests_total{code="404",route="unknown"} 1`)
	require.Contains(t, body, `mind_gateway_request_seconds_count{route="GET /jobs/{id}"} 2`)
	require.Contains(t, body, "mind_sse_streams 0")
	require.NotContains(t, body, "job_1", "no ids in labels")
}

func TestIndex_ofAnswersThatReflectNone(t *testing.T) {
	g := newGate(t, testConfig(newScripted(t)))
	require.Equal(t, "0", g.do("GET", "/health", "").header.Get("X-Mind-Index"))
	g.do("GET", prefix+"/jobs", "")
	require.Equal(t, "42", g.do("GET", "/nowhere", "").header.Get("X-Mind-Index"))
}

func TestConfig_saysAllThatIsWrong(t *testing.T) {
	err := Config{
		CertFile: "c", HTTPKeyFile: "k", Tokens: []StaticToken{{}}, JobCacheKeep: -1,
		Timeouts: Timeouts{Request: -1, Keepalive: -1}, Limits: Limits{Body: -1, BatchJobs: -1},
	}.Validate()
	for _, part := range []string{
		"http_addr", "coordinators", "cert_file", "http_cert_file", "tokens[0]: token", "tokens[0]: tenant", "job_cache_keep must",
		"request_timeout is -1ns: it must not be negative", "keepalive is", "max_body_bytes is -1", "max_batch_jobs is",
	} {
		require.ErrorContains(t, err, part)
	}
	require.Error(t, Run(t.Context(), Config{}))
}
