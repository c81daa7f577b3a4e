package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/param"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Short names for the table below.
type (
	doc    = openapi.Operation
	object = openapi.Object
	params = []openapi.Parameter
)

// endpoints lists all endpoints: those of special, and one for each other route of the protos.
func (s *server) endpoints() []rest.Endpoint {
	all := s.special()
	var named []rest.Endpoint // A path with a variable segment comes after those without: it would match them, too.
	for m := range methods.All() {
		for _, at := range m.Routes {
			e := rest.Endpoint{RPC: m.Name, Variant: at.Variant}
			if slices.ContainsFunc(slices.Concat(all, named), func(other rest.Endpoint) bool { return other.RPC == e.RPC && other.Variant == e.Variant }) {
				continue
			}
			if at.Method == http.MethodGet {
				e.Doc.Query = param.Read
			}
			if strings.Contains(at.Path, "{") {
				named = append(named, e)
			} else {
				all = append(all, e)
			}
		}
	}
	return append(all, named...)
}

// special lists the endpoints that need more than the protos declare, and those that are used most, whose paths are
// then matched first.
func (s *server) special() []rest.Endpoint {
	return slices.Concat(
		s.submits.Endpoints(), s.own(), s.streams.Endpoints(), s.tunnels.Endpoints(), s.downloads.Endpoints(), s.uploads.Endpoints(),
		s.flows.Endpoints(), s.cores.Endpoints(), s.credentials.Endpoints(),
	)
}

// own lists the endpoints that this package serves.
func (s *server) own() []rest.Endpoint {
	return []rest.Endpoint{
		{RPC: v1.JobService_GetJob_FullMethodName, Doc: doc{Query: param.Read}},
		{RPC: v1.JobService_ListJobs_FullMethodName, Serve: s.listJobs, Doc: doc{Out: &v1.ListJobsResponse{}, Query: params{
			param.Texts("status", "only jobs with this status; repeatable"),
			param.Text("queue", "only jobs of this queue"),
			param.Texts("label", "only jobs with this label key=value; repeatable, all must match"),
			param.Number("page_size", "default 20", 1, 100),
			param.PageToken,
			param.Text("order_by", "created_at desc (default), created_at, priority desc, name, name desc, started_at desc, finished_at desc or gpu_count desc"),
			param.Text("search", "only jobs with this in their name, or whose id begins with it"),
			param.Text("user", "only jobs that this user submitted; me: the caller"),
			param.Text("fields", "the fields of each job to answer with, separated by commas; default: all"),
			param.Flag("facets", "true: also count the jobs by status and by queue"),
			param.Consistency,
		}}},
		{RPC: v1.JobService_ExplainJob_FullMethodName, Query: fromQueryNow(wire.ExplainJob), Doc: doc{Query: params{
			param.Texts("what_if", "explain what would happen to a waiting job with this change, KEY=VALUE; repeatable"),
			param.Text("at", "as it was at an earlier moment: the index of a log entry, RFC 3339, or a duration back from now such as 10m"),
			param.Flag("remedies", "default true; false: do not look for what would let it start now"),
			param.Consistency,
		}}},
		{RPC: v1.JobService_ListJobTasks_FullMethodName, Query: rest.FromQuery(wire.ListJobTasks), Doc: doc{Query: params{
			param.Texts("status", "only elements with this status; repeatable"),
			param.Number("page_size", "default 100", 1, 1000),
			param.PageToken,
			param.Consistency,
		}}},
		{RPC: v1.JobService_GetJobMetrics_FullMethodName, Doc: doc{Query: param.Read}},
		{RPC: v1.JobService_GetJobSeries_FullMethodName, Query: rest.FromQuery(wire.GetJobSeries), Doc: doc{Query: params{
			param.Number("points", "points of each series, at most; default 200", 1, 2000),
			param.Texts("name", "only series with this name; repeatable"),
			param.Texts("attempt", "only those of this attempt; repeatable; default: the newest 32"),
			param.Texts("rank", "only those of this rank; repeatable"),
			param.Consistency,
		}}},

		{RPC: v1.EvaluationService_SubmitEvaluation_FullMethodName, Serve: s.submitEvaluation, Doc: doc{Missing: true, In: &v1.NewEvaluation{}, Out: &v1.SubmitEvaluationResponse{}}},
		{RPC: v1.EvaluationService_ListEvaluations_FullMethodName, Query: rest.FromQuery(wire.ListEvaluations), Doc: doc{Query: params{
			param.Texts("status", "only evaluations with this status; repeatable"),
			param.Text("job_id", "only evaluations of this job's model"),
			param.Number("page_size", "default 20", 1, 100),
			param.PageToken,
			param.Consistency,
		}}},
		{RPC: v1.EvaluationService_CompareEvaluations_FullMethodName, Query: rest.FromQuery(wire.CompareEvaluations), Doc: doc{Missing: true, Query: params{
			param.Texts("ids", "2 to 20 ids, separated by commas or repeated; the first one that has a metric is the baseline for that metric"),
			param.Consistency,
		}}},

		{RPC: v1.ClusterService_DrainNode_FullMethodName, Serve: s.drainNode, Doc: doc{In: &v1.DrainNodeRequest{}, Without: []string{"node_id"}, Optional: true, OutSchema: openapi.Anything}},
		{RPC: v1.ClusterService_ForgetNode_FullMethodName, Doc: doc{OutSchema: openapi.Anything}},
		{RPC: v1.ClusterService_GetQueue_FullMethodName, Query: rest.FromQuery(wire.GetQueue), Doc: doc{Missing: true, Query: params{
			param.Text("queue", "only this queue"), param.Number("limit", "default 100", 1, 1000), param.Consistency,
		}}},
		{RPC: v1.ClusterService_GetPolicy_FullMethodName, Serve: s.getPolicy, Doc: doc{Out: &v1.Policy{}, Query: param.Read}},
		{RPC: v1.ClusterService_PutPolicy_FullMethodName, Serve: s.putPolicy, Doc: doc{In: &v1.Policy{}, Without: policyToldOnly, Optional: true, Out: &v1.Policy{}}},

		{RPC: v1.LauncherService_ListLaunchers_FullMethodName, Variant: "one", Serve: s.getLauncher, Doc: doc{Out: &v1.Launcher{}, Query: param.Read}},
		{RPC: v1.LauncherService_PutLauncher_FullMethodName, Serve: s.putLauncher, Doc: doc{In: &v1.Launcher{}, Without: launcherToldOnly, Out: &v1.Launcher{}}},
		{RPC: v1.DataService_ValidateData_FullMethodName, Doc: doc{Missing: true}},

		{RPC: v1.QuotaService_GetQuota_FullMethodName, Serve: s.getQuota, Doc: doc{Out: &v1.Quota{}, Query: param.Read}},
		{RPC: v1.QuotaService_PutQuota_FullMethodName, Serve: s.putQuota, Doc: doc{In: &v1.Quota{}, Without: quotaFigures, Optional: true, Out: &v1.Quota{}}},
		{RPC: v1.QuotaService_DeleteQuota_FullMethodName, Serve: s.deleteQuota, Doc: doc{Out: &v1.DeleteQuotaRequest{}}},
		{RPC: v1.AuditService_ListAuditRecords_FullMethodName, Serve: s.listAudit, Doc: doc{Out: &v1.ListAuditRecordsResponse{}, Query: params{
			param.Text("user_id", "only actions of this user"),
			param.Text("action", "only this action, such as node.drain, or all actions of a kind, such as node"),
			param.Text("object", "only actions on this object: an id or a name"),
			param.Text("outcome", "OK, or the code of a refusal, such as NOT_FOUND"),
			param.Text("since", "only records since this time: RFC 3339, seconds back from now, or a duration such as 10m"),
			param.Text("until", "before then"),
			param.Number("page_size", "default 100", 1, 1000),
			param.PageToken,
			param.Text("tenant_id", "records of this tenant, or * for all; for operators only"),
			param.Consistency,
		}}},
		{Own: rest.Get("/v1/me", "Show the authenticated caller", true), Serve: getMe, Doc: doc{OutSchema: meSchema}},
		{Own: rest.Get("/v1/auth/me", "Show the authenticated caller", true), Serve: getMe, Doc: doc{OutSchema: meSchema}},
		{Own: rest.Get("/health", "Show that the gateway runs", false), Open: true, Serve: health, Doc: doc{
			OutSchema: object{"type": "object", "properties": object{"status": object{"type": "string", "description": "ok"}}},
		}},
		{Own: rest.Get("/health/ready", "Show whether this gateway can answer requests", false), Open: true, Serve: s.serveReady, Doc: doc{
			OutSchema: readySchema, Unready: readySchema, Query: params{
				{Name: param.Consistency.Name, Text: "stale: show whether it can answer stale reads, which need no leader", Schema: object{"enum": []string{"linearizable", "stale"}}},
			},
		}},
		{Own: rest.Get("/metrics", "Metrics for Prometheus", false), Open: true, Serve: serveMetrics},
		{Own: rest.Get("/openapi.json", "This document", true), Open: true, Serve: s.serveOpenAPI, Doc: doc{OutSchema: openapi.Anything}},
	}
}

var (
	meSchema = object{
		"type":       "object",
		"properties": object{"tenant_id": openapi.Text, "user_id": openapi.Text, "permissions": openapi.List(openapi.Text)},
	}
	// readySchema describes the answer of /health/ready, for both statuses.
	readySchema = object{
		"type": "object", "required": []string{"status", "checks"},
		"properties": object{
			"status": object{"enum": []string{"ready", "not_ready"}},
			"checks": object{"type": "object", "additionalProperties": object{"type": "string"}},
		},
	}
)
