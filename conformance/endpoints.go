package conformance

import (
	"context"
	"slices"
	"strings"
)

var (
	view     = []string{"scaimind:view"}
	manage   = []string{"scaimind:manage"}
	admin    = []string{"scaimind:cluster_admin"}
	operator = []string{"mind:operator"}
	evaluate = []string{"scaimind:evaluate"}
	// Both published pages describe reading evaluations.
	viewOrEvaluate = []string{"scaimind:view", "scaimind:evaluate"}
)

// endpoint has the promises of the documentation for one path and method.
type endpoint struct {
	name string // "GET /jobs/{id}", or with the whole path for other modules than ScaiMind
	may  []string
	open bool // needs no token
	code int  // status code of a successful call
	// published says that the module's own documentation describes the endpoint; otherwise it is our choice.
	published bool
	stream    bool
	socket    bool // it is a WebSocket
	// operator says that the example also needs mind:operator.
	operator bool

	// id returns the value of {id}, {name} or {framework} in the path of a successful call, which names an object of
	// the party. It is a new object if the call changes it.
	id func(ctx context.Context, p *party) (string, error)
	// shared says that the object belongs to no tenant, so access to objects of other tenants need not be checked.
	shared bool
	query  string
	// body returns the body of a successful call; nil: it has none.
	body func(p *party) any
	// bodyOptional says that a call without a body succeeds, too.
	bodyOptional bool
	// has lists fields that the data of an answer must have.
	has []string
	// skip is the reason for which no successful call is made.
	skip string
	// raw says that the answer has no envelope.
	raw bool
	// foreign says that the body is of a format of its own, so faults in bodies of the contract are not tried.
	foreign bool
	// right is the right on a flow that the call takes; empty: none.
	right string
}

func (e *endpoint) method() string {
	method, _, _ := strings.Cut(e.name, " ")
	return method
}

// template returns the whole path, with its placeholder.
func (e *endpoint) template() string {
	_, path, _ := strings.Cut(e.name, " ")
	if e.open || strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/api/") {
		return path
	}
	return prefix + path
}

// path returns the whole path, with an id in the place of its placeholder. One with two has their values with a slash between them.
func (e *endpoint) path(id string) string {
	path := e.template()
	for part := range strings.SplitSeq(id+"/nothing", "/") {
		from, to := strings.Index(path, "{"), strings.Index(path, "}")
		if from < 0 {
			break
		}
		path = path[:from] + part + path[to+1:]
	}
	return path
}

func (e *endpoint) named() bool { return strings.Contains(e.name, "{") }

// makes reports whether the endpoint makes an object whose name is in the path. Such an endpoint accepts unknown names.
func (e *endpoint) makes() bool {
	return slices.Contains([]string{"PUT /queues/{name}", "PUT /maintenance/{name}", "PUT /reservations/{name}", "PUT /schedules/{name}"}, e.name)
}

// noUploads is why no upload is made.
const noUploads = "a cluster without an archive of checkpoints takes none"

func ownJob(_ context.Context, p *party) (string, error)        { return p.job, nil }
func ownNode(_ context.Context, p *party) (string, error)       { return p.node, nil }
func ownCheckpoint(_ context.Context, p *party) (string, error) { return p.checkpoint, nil }
func ownEvaluation(_ context.Context, p *party) (string, error) { return p.evaluation, nil }
func ownTenant(_ context.Context, p *party) (string, error)     { return p.tenant, nil }

func runningJob(ctx context.Context, p *party) (string, error) { return p.running(ctx) }

func pausedJob(ctx context.Context, p *party) (string, error) {
	id, err := p.running(ctx)
	if err != nil {
		return "", err
	}
	err = p.target.must(ctx, request{
		method: "POST", path: prefix + "/jobs/" + id + "/pause", token: p.all, body: map[string]any{"save_checkpoint": false},
	}, 200, nil)
	if err != nil {
		return "", err
	}
	return id, p.await(ctx, id, "PAUSED")
}

// waitingJob is a job whose time has not come.
func waitingJob(ctx context.Context, p *party) (string, error) {
	var made struct {
		ID string `json:"job_id"`
	}
	body := shellJob("true")
	body["scheduling_config"] = map[string]any{"not_before": "2099-01-01T00:00:00Z"}
	err := p.target.must(ctx, request{method: "POST", path: prefix + "/jobs", token: p.all, body: body}, 201, &made)
	if err == nil {
		p.started = append(p.started, made.ID)
	}
	return made.ID, err
}

func failedJob(ctx context.Context, p *party) (string, error) {
	id, err := p.submit(ctx, "exit 1")
	if err != nil {
		return "", err
	}
	return id, p.await(ctx, id, "FAILED")
}

func ownQueue(ctx context.Context, p *party) (string, error) {
	return p.tenant, p.target.must(ctx, request{method: "PUT", path: prefix + "/queues/" + p.tenant, token: p.all, body: map[string]any{"max_gpus": 64}}, 200, nil)
}

// yearly returns a schedule that is due at New Year only, so hardly while the suite runs.
func yearly() map[string]any {
	return map[string]any{"cron": "@yearly", "overlap": "allow", "job": shellJob("exit 0")}
}

func ownSchedule(ctx context.Context, p *party) (string, error) {
	return p.tenant, p.target.must(ctx, request{method: "PUT", path: prefix + "/schedules/" + p.tenant, token: p.all, body: yearly()}, 200, nil)
}

func ownQuota(ctx context.Context, p *party) (string, error) {
	return p.tenant, p.target.must(ctx, request{
		method: "PUT", path: prefix + "/tenants/" + p.tenant + "/quota", token: p.all, body: map[string]any{"max_gpus": 100},
	}, 200, nil)
}

func spareToken(ctx context.Context, p *party) (string, error) {
	_, id, err := p.newToken(ctx, "conformance", view)
	return id, err
}

func fixed(name string) func(context.Context, *party) (string, error) {
	return func(context.Context, *party) (string, error) { return name, nil }
}

func empty(*party) any { return map[string]any{} }

var jobFields = []string{
	"job_id", "name", "tenant_id", "user_id", "status", "state", "phase", "priority", "queue", "labels", "training_config", "data_config",
	"resource_config", "output_config", "scheduling_config", "command_config", "attempt", "max_retries", "exit_code", "error_type",
	"error_message", "reason", "nodes", "gpus", "progress", "last_checkpoint_id", "created_at", "started_at", "finished_at", "updated_at",
	"revision", "queue_position", "estimated_start_at", "array",
}

// endpoints is the contract. It was written by hand from the design and the published documentation, not from the code.
var endpoints = slices.Concat(mindEndpoints, coreEndpoints, flowEndpoints)

// mindEndpoints are those of ScaiMind, and those of the gateway itself.
var mindEndpoints = []endpoint{
	{name: "POST /jobs", may: manage, code: 201, published: true, body: func(*party) any { return shellJob("exit 0") }, has: []string{"job_id", "status", "message", "estimated_wait_seconds"}},
	{name: "POST /jobs/batch", may: manage, code: 207, body: func(*party) any { return map[string]any{"jobs": []any{shellJob("exit 0"), shellJob("exit 0")}} }, has: []string{"results", "accepted", "refused"}},
	{name: "GET /jobs", may: view, code: 200, published: true, query: "status=COMPLETED&page_size=5", has: []string{"jobs", "next_page_token", "total_count"}},
	{name: "GET /jobs/{id}", may: view, code: 200, published: true, id: ownJob, has: jobFields},
	{name: "GET /jobs/{id}/explain", may: view, code: 200, id: ownJob, has: []string{"job_id", "state", "reason", "details", "obstacles", "remedies"}},
	{name: "GET /jobs/{id}/tasks", may: view, code: 200, id: ownJob, query: "status=FAILED&page_size=10", has: []string{"tasks", "next_page_token", "total_count"}},
	{name: "POST /jobs/{id}/cancel", may: manage, code: 200, published: true, id: runningJob, body: func(*party) any { return map[string]any{"reason": "conformance"} }, bodyOptional: true, has: jobFields},
	{name: "POST /jobs/{id}/pause", may: manage, code: 200, published: true, id: runningJob, body: func(*party) any { return map[string]any{"save_checkpoint": false} }, bodyOptional: true, has: jobFields},
	{name: "POST /jobs/{id}/resume", may: manage, code: 200, published: true, id: pausedJob, body: empty, bodyOptional: true, has: jobFields},
	{name: "POST /jobs/{id}/retry", may: manage, code: 200, published: true, id: failedJob, body: func(*party) any { return map[string]any{"modify_resources": map[string]any{"cpu_count": 2}} }, bodyOptional: true, has: jobFields},
	{name: "PATCH /jobs/{id}", may: manage, code: 200, id: runningJob, body: func(*party) any { return map[string]any{"scheduling_config": map[string]any{"priority": 7}} }, has: jobFields},
	{name: "POST /jobs/{id}/hold", may: manage, code: 200, id: waitingJob, body: func(*party) any { return map[string]any{"reason": "conformance"} }, bodyOptional: true, has: jobFields},
	{name: "POST /jobs/{id}/release", may: manage, code: 200, id: waitingJob, body: empty, bodyOptional: true, has: jobFields},
	{name: "GET /jobs/{id}/logs", may: view, code: 200, published: true, stream: true, id: ownJob, query: "follow=false"},
	{name: "GET /jobs/{id}/exec", may: manage, code: 101, socket: true, id: ownJob, skip: "it is a WebSocket"},
	{name: "GET /jobs/{id}/port-forward", may: manage, code: 101, socket: true, id: ownJob, query: "port=6006", skip: "it is a WebSocket"},
	{name: "GET /jobs/{id}/metrics", may: view, code: 200, published: true, id: ownJob, has: []string{"job_id", "metrics", "progress"}},
	{name: "GET /jobs/{id}/metrics/series", may: view, code: 200, id: ownJob, query: "points=10", has: []string{"job_id", "series", "missing"}},
	{name: "GET /jobs/{id}/metrics/stream", may: view, code: 200, published: true, stream: true, id: ownJob, query: "follow=false"},
	{name: "GET /jobs/{id}/checkpoints", may: view, code: 200, id: ownJob, has: []string{"checkpoints"}},
	{name: "GET /checkpoints/{id}", may: view, code: 200, id: ownCheckpoint, has: []string{"checkpoint_id", "job_id", "path", "step", "manifest_digest"}},
	{name: "GET /checkpoints/{id}/download", may: view, code: 200, id: ownCheckpoint, skip: "its answer is no JSON, and a cluster without an archive of checkpoints has none to give"},
	{name: "GET /uploads", may: manage, code: 200, skip: noUploads},
	{name: "POST /uploads", may: manage, code: 200, skip: noUploads, foreign: true},
	{name: "POST /uploads/packs", may: manage, code: 200, skip: noUploads, foreign: true},
	{name: "POST /checkpoints/{id}/pin", may: manage, code: 200, id: ownCheckpoint, has: []string{"checkpoint_id", "state", "pinned"}},
	{name: "POST /checkpoints/{id}/unpin", may: manage, code: 200, id: ownCheckpoint, has: []string{"checkpoint_id", "state"}},
	{name: "DELETE /checkpoints/{id}", may: manage, code: 200, id: ownCheckpoint, skip: "the suite still needs its only checkpoint"},

	{name: "GET /cluster", may: view, code: 200, published: true, has: []string{"nodes_total", "gpus_total", "gpus_allocated", "gpu_allocation", "gpu_utilization", "gpus_measured", "leader", "coordinators"}},
	{name: "GET /cluster/map", may: view, code: 200, has: []string{"node_ids", "states", "gpu_types", "domains", "gpus", "utilization"}},
	{name: "GET /cluster/coordinators", may: view, code: 200, has: []string{"coordinators", "leader", "term", "quorum", "hashes"}},
	{name: "GET /cluster/failovers", may: view, code: 200, has: []string{"failovers"}},
	{name: "GET /cluster/nodes", may: view, code: 200, published: true, has: []string{"nodes"}},
	{name: "GET /cluster/nodes/{id}", may: view, code: 200, id: ownNode, shared: true, has: []string{"node_id", "state", "gpus"}},
	{name: "POST /cluster/nodes/{id}/drain", may: admin, code: 200, published: true, id: ownNode, shared: true, body: func(*party) any { return map[string]any{"dry_run": true} }, bodyOptional: true},
	{name: "POST /cluster/nodes/{id}/enable", may: admin, code: 200, published: true, id: ownNode, shared: true, body: empty, bodyOptional: true, has: []string{"node_id", "state"}},
	{name: "DELETE /cluster/nodes/{id}", may: admin, code: 200, id: ownNode, shared: true, skip: "it would remove a node"},
	{name: "GET /nodes", may: view, code: 200, has: []string{"nodes"}},
	{name: "GET /cluster/nodes/{id}/training", may: view, code: 200, id: ownNode, shared: true, has: []string{"node_id", "problem", "cells"}},
	{name: "GET /nodes/{id}/training", may: view, code: 200, id: ownNode, shared: true, has: []string{"node_id", "problem", "cells"}},
	{name: "GET /nodes/{id}", may: view, code: 200, id: ownNode, shared: true, has: []string{"node_id", "state", "gpus"}},
	{name: "POST /nodes/{id}/drain", may: admin, code: 200, id: ownNode, shared: true, body: func(*party) any { return map[string]any{"dry_run": true} }, bodyOptional: true},
	{name: "POST /nodes/{id}/enable", may: admin, code: 200, id: ownNode, shared: true, body: empty, bodyOptional: true, has: []string{"node_id", "state"}},
	{name: "DELETE /nodes/{id}", may: admin, code: 200, id: ownNode, shared: true, skip: "it would remove a node"},
	{name: "GET /queue", may: view, code: 200, published: true, has: []string{"depth", "jobs"}},
	{name: "GET /queues", may: view, code: 200, has: []string{"queues"}},
	{name: "PUT /queues/{name}", may: admin, code: 200, id: ownTenant, shared: true, body: func(*party) any { return map[string]any{"max_gpus": 64} }, bodyOptional: true, has: []string{"name", "max_gpus"}},
	{name: "DELETE /queues/{name}", may: admin, code: 200, id: ownQueue, shared: true},
	{name: "PUT /tenants/{id}/quota", may: admin, code: 200, id: ownTenant, body: func(*party) any { return map[string]any{"max_gpus": 4} }},
	{name: "GET /tenants/{id}/quota", may: view, code: 200, id: ownTenant},
	{name: "DELETE /tenants/{id}/quota", may: admin, code: 200, id: ownQuota},
	{name: "GET /policy", may: view, code: 200, has: []string{"order", "half_life_seconds"}},
	{name: "PUT /policy", may: admin, code: 200, body: func(*party) any { return map[string]any{"backfill": map[string]any{"reservations": 8}} }, has: []string{"order", "backfill"}},
	{name: "GET /maintenance", may: view, code: 200, has: []string{"maintenance"}},
	{name: "PUT /maintenance/{name}", may: admin, code: 200, id: ownTenant, shared: true, skip: "it would keep nodes from the jobs of the suite"},
	{name: "DELETE /maintenance/{name}", may: admin, code: 200, id: ownTenant, shared: true, skip: "there is none to delete"},
	{name: "GET /reservations", may: view, code: 200, has: []string{"reservations"}},
	{name: "PUT /reservations/{name}", may: admin, code: 200, id: ownTenant, shared: true, skip: "it would keep nodes from the jobs of the suite"},
	{name: "DELETE /reservations/{name}", may: admin, code: 200, id: ownTenant, shared: true, skip: "there is none to delete"},
	{name: "GET /schedules", may: view, code: 200, has: []string{"schedules"}},
	{name: "PUT /schedules/{name}", may: manage, code: 200, id: ownTenant, body: func(*party) any { return yearly() }, has: []string{"name", "cron", "next_run_at", "upcoming", "job"}},
	{name: "GET /schedules/{name}", may: view, code: 200, id: ownSchedule, has: []string{"name", "cron", "timezone", "overlap", "next_run_at", "job"}},
	{name: "POST /schedules/{name}/pause", may: manage, code: 200, id: ownSchedule, body: empty, bodyOptional: true, has: []string{"name", "paused"}},
	{name: "POST /schedules/{name}/resume", may: manage, code: 200, id: ownSchedule, body: empty, bodyOptional: true, has: []string{"name", "next_run_at"}},
	{name: "POST /schedules/{name}/run", may: manage, code: 201, id: ownSchedule, body: empty, bodyOptional: true, has: []string{"job_id"}},
	{name: "DELETE /schedules/{name}", may: manage, code: 200, id: ownSchedule},
	{name: "GET /quotas", may: view, code: 200, has: []string{"quotas"}},

	{name: "POST /evaluations", may: evaluate, code: 201, published: true, body: func(p *party) any { return p.evaluationBody() }, has: []string{"evaluation_id", "status"}},
	{name: "GET /evaluations", may: viewOrEvaluate, code: 200, published: true, has: []string{"evaluations", "next_page_token", "total_count"}},
	{name: "GET /evaluations/{id}", may: viewOrEvaluate, code: 200, published: true, id: ownEvaluation, has: []string{"evaluation_id", "status", "results"}},
	{name: "GET /evaluations/compare", may: viewOrEvaluate, code: 200, query: "ids=eval_0,eval_1", skip: "it needs two ids in its query"},

	{name: "POST /data/validate", may: manage, code: 200, published: true, body: func(*party) any {
		return map[string]any{"sources": []any{map[string]any{"path": "file:///no/such/file"}}}
	}, has: []string{"valid", "sources"}},
	{name: "GET /data/cache", may: manage, code: 200, published: true, has: []string{"nodes"}},

	{name: "GET /launchers", may: view, code: 200, has: []string{"launchers"}},
	{name: "GET /launchers/{framework}", may: view, code: 200, id: fixed("CUSTOM"), shared: true, has: []string{"framework", "argv"}},
	{name: "PUT /launchers/{framework}", may: operator, operator: true, code: 200, id: fixed("EVALUATION"), shared: true, body: func(*party) any { return map[string]any{"argv": []any{"true"}} }},
	{name: "DELETE /launchers/{framework}", may: operator, operator: true, code: 200, id: fixed("EVALUATION"), shared: true},

	{name: "GET /audit", may: admin, code: 200, has: []string{"records", "next_page_token"}},
	{name: "GET /events", may: []string{"scaimind:view", "scaicore:view", "scaicore:admin"}, code: 200, stream: true, skip: "the stream does not end"},
	{name: "POST /tokens", may: admin, code: 201, body: func(p *party) any {
		return map[string]any{"permissions": []any{"scaimind:view"}, "expires_in_seconds": 60}
	}, has: []string{"token", "token_id", "permissions"}},
	{name: "GET /tokens", may: admin, code: 200, has: []string{"tokens"}},
	{name: "DELETE /tokens/{id}", may: admin, code: 200, id: spareToken},

	{name: "POST /v1/stream-tickets", code: 201, body: empty, bodyOptional: true, has: []string{"ticket", "expires_at"}},
	{name: "POST /v1/session", code: 201, body: empty, bodyOptional: true, skip: "sessions are for browsers: they need HTTPS, or loopback"},
	{name: "GET /v1/session", code: 200, skip: "a token is no session"},
	{name: "DELETE /v1/session", code: 204, skip: "a token is no session"},
	{name: "GET /v1/sessions", code: 200, has: []string{"sessions"}},
	{name: "DELETE /v1/sessions/{id}", code: 200, skip: "a token is no session"},
	{name: "GET /v1/session/login", open: true, code: 303, skip: "it leads to a sign-in server"},
	{name: "GET /v1/session/callback", open: true, code: 303, skip: "it comes from a sign-in server"},
	{name: "GET /v1/session/methods", open: true, code: 200, has: []string{"token", "oidc"}},
	{name: "GET /v1/auth/me", code: 200, published: true, has: []string{"tenant_id", "user_id", "permissions"}},
	{name: "GET /v1/me", code: 200, published: true, has: []string{"tenant_id", "user_id", "permissions"}},
	{name: "GET /health", open: true, code: 200, published: true, raw: true},
	{name: "GET /health/ready", open: true, code: 200, published: true, raw: true},
	{name: "GET /metrics", open: true, code: 200, published: true, raw: true},
	{name: "GET /openapi.json", open: true, code: 200, raw: true},
}
