package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/login"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// endpoint serves the routes of one method, and describes its query, body and answer for the OpenAPI document. The protos
// declare everything else: paths, permissions, status and summary.
type endpoint struct {
	// rpc is the method of the coordinators to call, and variant selects one of its routes; own is a route without an
	// RPC.
	rpc, variant string
	own          methods.Route
	open         bool // no token is needed
	// permissions of an own route: the caller needs one of them; none: any caller may use it.
	permissions []string
	// writes: the own route changes something, and most limits its body; 0: as the configuration says.
	writes bool
	most   int64
	// operator is the permission that makes the caller of an own route an operator.
	operator string
	// serve handles a request; nil: the route is served as the protos declare it (declaredRoute).
	serve func(x *httpRequest) error
	query queryReader // nil: the only parameter of the query is the consistency
	doc   doc
}

type (
	doc    = openapi.Operation
	object = openapi.Object
	params = []openapi.Parameter
)

// Parameters that several endpoints share.
var (
	consistency = openapi.Parameter{
		Name: queryConsistency, Text: "linearizable (default), or stale: one coordinator answers from its own state",
		Schema: object{"enum": []string{"linearizable", "stale"}},
	}
	read      = params{consistency}
	ticket    = text(queryTicket, "of POST /v1/stream-tickets, instead of the header Authorization; valid once")
	lastEvent = text("last_event_id", "continue after this event; same as the header Last-Event-ID")
	following = openapi.Parameter{Name: "follow", Text: "default true; false: end when all existing events were sent", Schema: object{"type": "boolean"}}
	pageToken = text("page_token", "next_page_token of the previous page")
	anything  = object{"type": "object"}
)

func text(name, says string) openapi.Parameter {
	return openapi.Parameter{Name: name, Text: says, Schema: openapi.Text}
}

func texts(name, says string) openapi.Parameter {
	return openapi.Parameter{Name: name, Text: says, Schema: list(object{"type": "string"})}
}

func oneOf(name, says string, allowed []string) openapi.Parameter {
	return openapi.Parameter{Name: name, Text: says, Schema: object{"enum": allowed}}
}

func number(name, says string, from, to int) openapi.Parameter {
	return openapi.Parameter{Name: name, Text: says, Schema: integer(from, to)}
}

func integer(from, to int) object {
	return object{"type": "integer", "minimum": from, "maximum": to}
}

func list(of object) object { return object{"type": "array", "items": of} }

const maxInt32 = 1<<31 - 1

// endpoints lists all endpoints: those of special, and one for each other route of the protos.
func endpoints() []endpoint {
	all := special()
	var named []endpoint // A path with a variable segment comes after those without: it would match them, too.
	for m := range methods.All() {
		for _, at := range m.Routes {
			e := endpoint{rpc: m.Name, variant: at.Variant}
			if slices.ContainsFunc(slices.Concat(all, named), func(other endpoint) bool { return other.rpc == e.rpc && other.variant == e.variant }) {
				continue
			}
			if at.Method == http.MethodGet {
				e.doc.Query = read
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
func special() []endpoint {
	return append(flowEndpoints(), []endpoint{
		{rpc: v1.JobService_SubmitJob_FullMethodName, serve: submitJob, doc: doc{In: &v1.SubmitJobRequest{}, Out: &v1.SubmitJobResponse{}}},
		{rpc: v1.JobService_SubmitJobs_FullMethodName, serve: submitBatch, doc: doc{
			InSchema:  object{"type": "object", "required": []string{"jobs"}, "properties": object{"jobs": list(object{"$ref": "#/components/schemas/SubmitJobRequest"})}},
			OutSchema: object{"type": "object", "properties": object{"results": list(anything), "accepted": integer(0, 1000), "refused": integer(0, 1000)}},
		}},
		{rpc: v1.JobService_GetJob_FullMethodName, doc: doc{Query: read}},
		{rpc: v1.JobService_ListJobs_FullMethodName, serve: listJobs, doc: doc{Out: &v1.ListJobsResponse{}, Query: params{
			texts("status", "only jobs with this status; repeatable"),
			text("queue", "only jobs of this queue"),
			texts("label", "only jobs with this label key=value; repeatable, all must match"),
			number("page_size", "default 20", 1, 100),
			pageToken,
			text("order_by", "created_at desc (default), created_at, priority desc, name, name desc, started_at desc, finished_at desc or gpu_count desc"),
			text("search", "only jobs with this in their name, or whose id begins with it"),
			text("user", "only jobs that this user submitted; me: the caller"),
			text("fields", "the fields of each job to answer with, separated by commas; default: all"),
			openapi.Parameter{Name: "facets", Text: "true: also count the jobs by status and by queue", Schema: object{"type": "boolean"}},
			consistency,
		}}},
		{rpc: v1.JobService_ExplainJob_FullMethodName, query: fromQueryNow(wire.ExplainJob), doc: doc{Query: params{
			texts("what_if", "explain what would happen to a waiting job with this change, KEY=VALUE; repeatable"),
			text("at", "as it was at an earlier moment: the index of a log entry, RFC 3339, or a duration back from now such as 10m"),
			openapi.Parameter{Name: "remedies", Text: "default true; false: do not look for what would let it start now", Schema: object{"type": "boolean"}},
			consistency,
		}}},
		{rpc: v1.JobService_ListJobTasks_FullMethodName, query: fromQuery(wire.ListJobTasks), doc: doc{Query: params{
			texts("status", "only elements with this status; repeatable"),
			number("page_size", "default 100", 1, 1000),
			pageToken,
			consistency,
		}}},
		{rpc: v1.JobService_StreamJobLogs_FullMethodName, serve: streamLogs, doc: doc{Query: params{
			number("tail", "only the last existing lines; 0: only new lines", 0, maxInt32),
			following,
			number("rank", "only this rank", 0, maxInt32),
			number("attempt", "this attempt; default: the newest and all later ones", 0, maxInt32),
			text("since", "RFC 3339, seconds back from now, or a duration such as 10m"),
			lastEvent, ticket, consistency,
		}}},
		{rpc: v1.JobService_StreamJobTunnel_FullMethodName, serve: openShell, doc: doc{Socket: true, Query: shellQuery}},
		{rpc: v1.JobService_StreamJobTunnel_FullMethodName, variant: "port", serve: openPort, doc: doc{Socket: true, Query: portQuery}},
		{rpc: v1.JobService_GetJobMetrics_FullMethodName, doc: doc{Query: read}},
		{rpc: v1.JobService_GetJobSeries_FullMethodName, query: fromQuery(wire.GetJobSeries), doc: doc{Query: params{
			number("points", "points of each series, at most; default 200", 1, 2000),
			texts("name", "only series with this name; repeatable"),
			texts("attempt", "only those of this attempt; repeatable; default: the newest 32"),
			texts("rank", "only those of this rank; repeatable"),
			consistency,
		}}},
		{rpc: v1.JobService_StreamJobMetrics_FullMethodName, serve: streamMetrics, doc: doc{Query: params{following, lastEvent, ticket, consistency}}},
		downloadEndpoint(),
		limitsEndpoint(),
		offerEndpoint(),
		packEndpoint(),

		{rpc: v1.EvaluationService_SubmitEvaluation_FullMethodName, serve: submitEvaluation, doc: doc{Missing: true, In: &v1.NewEvaluation{}, Out: &v1.SubmitEvaluationResponse{}}},
		{rpc: v1.EvaluationService_ListEvaluations_FullMethodName, query: fromQuery(wire.ListEvaluations), doc: doc{Query: params{
			texts("status", "only evaluations with this status; repeatable"),
			text("job_id", "only evaluations of this job's model"),
			number("page_size", "default 20", 1, 100),
			pageToken,
			consistency,
		}}},
		{rpc: v1.EvaluationService_CompareEvaluations_FullMethodName, query: fromQuery(wire.CompareEvaluations), doc: doc{Missing: true, Query: params{
			texts("ids", "2 to 20 ids, separated by commas or repeated; the first one that has a metric is the baseline for that metric"),
			consistency,
		}}},

		{rpc: v1.ClusterService_DrainNode_FullMethodName, serve: drainNode, doc: doc{In: &v1.DrainNodeRequest{}, Without: []string{"node_id"}, Optional: true, OutSchema: anything}},
		{rpc: v1.ClusterService_ForgetNode_FullMethodName, doc: doc{OutSchema: anything}},
		{rpc: v1.ClusterService_GetQueue_FullMethodName, query: fromQuery(wire.GetQueue), doc: doc{Missing: true, Query: params{
			text("queue", "only this queue"), number("limit", "default 100", 1, 1000), consistency,
		}}},
		{rpc: v1.ClusterService_GetPolicy_FullMethodName, serve: getPolicy, doc: doc{Out: &v1.Policy{}, Query: read}},
		{rpc: v1.ClusterService_PutPolicy_FullMethodName, serve: putPolicy, doc: doc{In: &v1.Policy{}, Without: policyToldOnly, Optional: true, Out: &v1.Policy{}}},

		{rpc: v1.LauncherService_ListLaunchers_FullMethodName, variant: "one", serve: getLauncher, doc: doc{Out: &v1.Launcher{}, Query: read}},
		{rpc: v1.LauncherService_PutLauncher_FullMethodName, serve: putLauncher, doc: doc{In: &v1.Launcher{}, Without: launcherToldOnly, Out: &v1.Launcher{}}},
		{rpc: v1.DataService_ValidateData_FullMethodName, doc: doc{Missing: true}},

		{rpc: v1.EventService_WatchEvents_FullMethodName, serve: streamEvents, doc: doc{Query: params{
			texts("topic", "only events about "+strings.Join(status.MindTopics, ", ")+" (scaimind:view), "+strings.Join(status.CoreTopics, ", ")+" (scaicore:view); repeatable"),
			{Name: "since_index", Text: "start after this state index; 0: with the oldest event that is remembered; default: now", Schema: object{"type": "integer", "minimum": 0}},
			lastEvent, ticket, consistency,
		}}},

		{rpc: v1.TokenService_CreateToken_FullMethodName, serve: createToken, doc: doc{In: &v1.CreateTokenRequest{}, Without: []string{"digest"}, Out: &v1.NewToken{}}},
		{rpc: v1.TokenService_ListTokens_FullMethodName, serve: listTokens, doc: doc{Out: &v1.ListTokensResponse{}, Query: params{
			text("tenant_id", "tokens of this tenant; for operators only"), consistency,
		}}},
		{rpc: v1.TokenService_RevokeToken_FullMethodName, serve: revokeToken, doc: doc{Out: &v1.RevokeTokenRequest{}, Query: params{
			text("tenant_id", "tokens of this tenant; for operators only"),
		}}},

		{rpc: v1.QuotaService_GetQuota_FullMethodName, serve: getQuota, doc: doc{Out: &v1.Quota{}, Query: read}},
		{rpc: v1.QuotaService_PutQuota_FullMethodName, serve: putQuota, doc: doc{In: &v1.Quota{}, Without: quotaFigures, Optional: true, Out: &v1.Quota{}}},
		{rpc: v1.QuotaService_DeleteQuota_FullMethodName, serve: deleteQuota, doc: doc{Out: &v1.DeleteQuotaRequest{}}},
		{rpc: v1.AuditService_ListAuditRecords_FullMethodName, serve: listAudit, doc: doc{Out: &v1.ListAuditRecordsResponse{}, Query: params{
			text("user_id", "only actions of this user"),
			text("action", "only this action, such as node.drain, or all actions of a kind, such as node"),
			text("object", "only actions on this object: an id or a name"),
			text("outcome", "OK, or the code of a refusal, such as NOT_FOUND"),
			text("since", "only records since this time: RFC 3339, seconds back from now, or a duration such as 10m"),
			text("until", "before then"),
			number("page_size", "default 100", 1, 1000),
			pageToken,
			text("tenant_id", "records of this tenant, or * for all; for operators only"),
			consistency,
		}}},
		{own: parseBundleRoute, most: maxForm, permissions: []string{auth.CoreManage, auth.CoreAdmin}, serve: parseBundle, doc: doc{InSchema: anything, OutSchema: bundleSchema}},
		{rpc: v1.CoreService_CreateCore_FullMethodName, serve: createCore, doc: doc{In: &v1.CreateCoreRequest{}, Out: &v1.Core{}, YAML: true}},
		{rpc: v1.CoreService_UpdateCore_FullMethodName, serve: updateCore, doc: doc{In: &v1.UpdateCoreRequest{}, Without: []string{"core_id"}, Out: &v1.Core{}, YAML: true}},
		{rpc: v1.CoreService_InvokeCore_FullMethodName, serve: invokeCore, doc: doc{In: &v1.InvokeCoreRequest{}, Without: []string{"core_id"}, Optional: true, Out: &v1.Execution{}, Accepted: true}},
		{rpc: v1.CoreService_ListCores_FullMethodName, query: fromQuery(wire.Listing(func() *v1.ListCoresRequest { return &v1.ListCoresRequest{} })), doc: doc{Query: params{
			coreLimit, coreCursor, consistency,
		}}},
		{rpc: v1.CoreService_ListExecutions_FullMethodName, query: fromQuery(wire.Listing(func() *v1.ListExecutionsRequest { return &v1.ListExecutionsRequest{} }, executionStatuses...)), doc: doc{Missing: true, Query: params{
			ofCore, oneOf("status", "only executions with this status", executionStatuses), coreLimit, coreCursor, consistency,
		}}},
		{rpc: v1.CoreService_ListDecisions_FullMethodName, query: fromQuery(wire.Listing(func() *v1.ListDecisionsRequest { return &v1.ListDecisionsRequest{} }, checkpointStatuses...)), doc: doc{Missing: true, Query: params{
			ofCore, oneOf("status", "pending (default), resolved, expired, cancelled or all", checkpointStatuses), coreLimit, coreCursor, consistency,
		}}},
		{rpc: v1.CoreService_ListCoreEvents_FullMethodName, query: fromQuery(wire.Listing(func() *v1.ListCoreEventsRequest { return &v1.ListCoreEventsRequest{} })), doc: doc{Missing: true, Query: params{
			ofCore, text("execution_id", "only events of this execution"), coreLimit, coreCursor, consistency,
		}}},
		{rpc: v1.TokenService_CreateStreamTicket_FullMethodName, serve: createStreamTicket, doc: doc{
			In: &v1.StreamTicketRequest{}, Optional: true, Out: &v1.NewStreamTicket{},
		}},

		{rpc: v1.SessionService_CreateSession_FullMethodName, serve: createSession, doc: doc{In: &v1.SignInRequest{}, Optional: true, Out: &v1.Session{}, Conflict: true}},
		{rpc: v1.SessionService_RevokeSession_FullMethodName, variant: "own", serve: deleteSession, doc: doc{}},
		{rpc: v1.SessionService_RevokeSession_FullMethodName, serve: revokeSession, doc: doc{Out: &v1.RevokedSession{}, Query: params{
			text("tenant_id", "a session of this tenant; for operators only"),
		}}},
		{rpc: v1.SessionService_ListSessions_FullMethodName, serve: listSessions, doc: doc{Out: &v1.ListSessionsResponse{}, Query: params{
			openapi.Parameter{Name: "all", Text: "true: those of all users of the tenant, which takes scaimind:cluster_admin", Schema: object{"type": "boolean"}},
			text("tenant_id", "sessions of this tenant; for operators only"), consistency,
		}}},
		{own: get("/v1/session", "Show the session of the request", true), serve: getSession, doc: doc{Out: &v1.Session{}}},
		{own: get("/v1/session/methods", "Show how users may sign in", true), open: true, serve: sessionMethods, doc: doc{OutSchema: methodsSchema}},
		{own: redirecting(login.Path, "Sign in at the OpenID Connect issuer: go there"), open: true, serve: beginLogin, doc: doc{Missing: true, Conflict: true, Query: params{
			text("next", "the page of the console to go to afterwards, which begins with /console/"),
		}}},
		{own: redirecting("/v1/session/callback", "Sign in at the OpenID Connect issuer: come back from there"), open: true, serve: finishLogin, doc: doc{Missing: true, Conflict: true}},

		{own: get("/v1/me", "Show the authenticated caller", true), serve: getMe, doc: doc{OutSchema: meSchema}},
		{own: get("/v1/auth/me", "Show the authenticated caller", true), serve: getMe, doc: doc{OutSchema: meSchema}},
		{own: get("/health", "Show that the gateway runs", false), open: true, serve: health, doc: doc{
			OutSchema: object{"type": "object", "properties": object{"status": object{"type": "string", "description": "ok"}}},
		}},
		{own: get("/health/ready", "Show whether this gateway can answer requests", false), open: true, serve: ready, doc: doc{
			OutSchema: readySchema, Unready: readySchema, Query: params{
				{Name: queryConsistency, Text: "stale: show whether it can answer stale reads, which need no leader", Schema: object{"enum": []string{"linearizable", "stale"}}},
			},
		}},
		{own: get("/metrics", "Metrics for Prometheus", false), open: true, serve: serveMetrics},
		{own: get("/openapi.json", "This document", true), open: true, serve: serveOpenAPI, doc: doc{OutSchema: anything}},
	}...)
}

// get returns a route of the gateway itself.
func get(path, summary string, choice bool) methods.Route {
	return methods.Route{Method: http.MethodGet, Path: path, Summary: summary, Code: http.StatusOK, Choice: choice}
}

// redirecting returns a route of the gateway itself that sends browsers elsewhere.
func redirecting(path, summary string) methods.Route {
	return methods.Route{Method: http.MethodGet, Path: path, Summary: summary, Code: http.StatusSeeOther, Choice: true}
}

var (
	meSchema = object{
		"type":       "object",
		"properties": object{"tenant_id": openapi.Text, "user_id": openapi.Text, "permissions": list(openapi.Text)},
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
