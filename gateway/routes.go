package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// prefix of everything that ScaiMind published.
const prefix = "/v1/modules/scaimind"

// route is one line of the table of routes.
type route struct {
	method string
	path   string
	// Who may: anybody when there is none, else a caller with one of them.
	anyOf  []string
	open   bool // no token is needed
	batch  bool // takes the larger body
	stream bool // answers with events
	nodes  bool // tells of nodes, of which cluster_admin is told more
	// tenants: what operators do here may be about all of them.
	tenants bool
	// secrets is who is shown what may be secret in answers; nil: whoever may manage jobs.
	secrets []string
	serve   func(x *exchange) error

	name string // "GET /jobs/{id}", for metrics and logs
}

func (r *route) bodyLimit(l Limits) int64 {
	if r.batch {
		return l.BatchBody
	}
	return l.Body
}

var (
	view         = []string{PermissionView}
	manage       = []string{PermissionManage}
	clusterAdmin = []string{PermissionClusterAdmin}
	evaluate     = []string{PermissionEvaluate}
	operator     = []string{PermissionOperator}
	// Reading evaluations was published under both.
	viewEvaluations = []string{PermissionView, PermissionEvaluate}
	// Operators write launchers, and the jobs of those who manage jobs run with them.
	launcherSecrets = []string{PermissionManage, PermissionOperator}
)

// table lists the routes; those that are asked for most come first.
func table() []route {
	return []route{
		{method: "POST", path: prefix + "/jobs", anyOf: manage, serve: submitJob},
		{method: "POST", path: prefix + "/jobs/batch", anyOf: manage, batch: true, serve: submitBatch},
		{method: "GET", path: prefix + "/jobs/{id}", anyOf: view, serve: getJob},
		{method: "GET", path: prefix + "/jobs", anyOf: view, serve: listJobs},
		{method: "GET", path: prefix + "/jobs/{id}/explain", anyOf: view, serve: explainJob},
		{method: "POST", path: prefix + "/jobs/{id}/cancel", anyOf: manage, serve: cancelJob},
		{method: "POST", path: prefix + "/jobs/{id}/pause", anyOf: manage, serve: pauseJob},
		{method: "POST", path: prefix + "/jobs/{id}/resume", anyOf: manage, serve: resumeJob},
		{method: "POST", path: prefix + "/jobs/{id}/retry", anyOf: manage, serve: retryJob},
		{method: "GET", path: prefix + "/jobs/{id}/logs", anyOf: view, stream: true, serve: streamLogs},
		{method: "GET", path: prefix + "/jobs/{id}/metrics", anyOf: view, serve: getJobMetrics},
		{method: "GET", path: prefix + "/jobs/{id}/metrics/stream", anyOf: view, stream: true, serve: streamMetrics},
		{method: "GET", path: prefix + "/jobs/{id}/checkpoints", anyOf: view, serve: listCheckpoints},
		{method: "GET", path: prefix + "/checkpoints/{id}", anyOf: view, serve: getCheckpoint},
		{method: "DELETE", path: prefix + "/checkpoints/{id}", anyOf: manage, serve: deleteCheckpoint},

		{method: "POST", path: prefix + "/evaluations", anyOf: evaluate, serve: submitEvaluation},
		{method: "GET", path: prefix + "/evaluations", anyOf: viewEvaluations, serve: listEvaluations},
		{method: "GET", path: prefix + "/evaluations/compare", anyOf: viewEvaluations, serve: compareEvaluations},
		{method: "GET", path: prefix + "/evaluations/{id}", anyOf: viewEvaluations, serve: getEvaluation},

		{method: "GET", path: prefix + "/cluster", anyOf: view, serve: getCluster},
		{method: "GET", path: prefix + "/cluster/nodes", anyOf: view, nodes: true, serve: listNodes},
		{method: "GET", path: prefix + "/cluster/nodes/{id}", anyOf: view, nodes: true, serve: getNode},
		{method: "POST", path: prefix + "/cluster/nodes/{id}/drain", anyOf: clusterAdmin, nodes: true, serve: drainNode},
		{method: "POST", path: prefix + "/cluster/nodes/{id}/enable", anyOf: clusterAdmin, nodes: true, serve: enableNode},
		{method: "DELETE", path: prefix + "/cluster/nodes/{id}", anyOf: clusterAdmin, serve: forgetNode},
		{method: "GET", path: prefix + "/nodes", anyOf: view, nodes: true, serve: listNodes},
		{method: "GET", path: prefix + "/nodes/{id}", anyOf: view, nodes: true, serve: getNode},
		{method: "POST", path: prefix + "/nodes/{id}/drain", anyOf: clusterAdmin, nodes: true, serve: drainNode},
		{method: "POST", path: prefix + "/nodes/{id}/enable", anyOf: clusterAdmin, nodes: true, serve: enableNode},
		{method: "DELETE", path: prefix + "/nodes/{id}", anyOf: clusterAdmin, serve: forgetNode},
		{method: "GET", path: prefix + "/queue", anyOf: view, serve: getQueue},
		{method: "GET", path: prefix + "/queues", anyOf: view, serve: listQueues},
		{method: "PUT", path: prefix + "/queues/{name}", anyOf: clusterAdmin, serve: putQueue},
		{method: "DELETE", path: prefix + "/queues/{name}", anyOf: clusterAdmin, serve: deleteQueue},

		{method: "GET", path: prefix + "/launchers", anyOf: view, secrets: launcherSecrets, serve: listLaunchers},
		{method: "GET", path: prefix + "/launchers/{framework}", anyOf: view, secrets: launcherSecrets, serve: getLauncher},
		{method: "PUT", path: prefix + "/launchers/{framework}", anyOf: operator, tenants: true, secrets: launcherSecrets, serve: putLauncher},
		{method: "DELETE", path: prefix + "/launchers/{framework}", anyOf: operator, tenants: true, secrets: launcherSecrets, serve: deleteLauncher},
		{method: "POST", path: prefix + "/data/validate", anyOf: manage, serve: validateData},
		{method: "GET", path: prefix + "/data/cache", anyOf: manage, serve: getDataCache},

		{method: "GET", path: prefix + "/events", anyOf: view, stream: true, serve: streamEvents},

		{method: "POST", path: prefix + "/tokens", anyOf: clusterAdmin, serve: createToken},
		{method: "GET", path: prefix + "/tokens", anyOf: clusterAdmin, serve: listTokens},
		{method: "DELETE", path: prefix + "/tokens/{id}", anyOf: clusterAdmin, serve: revokeToken},

		{method: "GET", path: prefix + "/quotas", anyOf: view, tenants: true, serve: listQuotas},
		{method: "GET", path: prefix + "/tenants/{id}/quota", anyOf: view, tenants: true, serve: getQuota},
		{method: "PUT", path: prefix + "/tenants/{id}/quota", anyOf: clusterAdmin, tenants: true, serve: putQuota},
		{method: "DELETE", path: prefix + "/tenants/{id}/quota", anyOf: clusterAdmin, tenants: true, serve: deleteQuota},
		{method: "GET", path: prefix + "/audit", anyOf: clusterAdmin, tenants: true, serve: listAudit},

		{method: "POST", path: "/v1/stream-tickets", serve: createStreamTicket},
		{method: "GET", path: "/v1/me", serve: getMe},
		{method: "GET", path: "/v1/auth/me", serve: getMe},
		{method: "GET", path: "/health", open: true, serve: health},
		{method: "GET", path: "/health/ready", open: true, serve: ready},
		{method: "GET", path: "/metrics", open: true, serve: serveMetrics},
		{method: "GET", path: "/openapi.json", open: true, serve: serveOpenAPI},
	}
}

// router puts the table behind mux.
func (s *server) router() http.Handler {
	routes := table()
	// What is escaped in a path belongs to a name: the tenant "a/b" is one segment.
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for i := range routes {
		r := &routes[i]
		r.name = r.method + " " + strings.TrimPrefix(r.path, prefix)
		methods := []string{r.method}
		if r.method == http.MethodGet && !r.stream {
			methods = append(methods, http.MethodHead) // net/http leaves the body out
		}
		router.Handle(r.path, s.handler(r)).Methods(methods...)
	}
	router.NotFoundHandler = s.handler(&route{open: true, name: "unknown", serve: func(x *exchange) error {
		return &problem{
			http: http.StatusNotFound, code: "NOT_FOUND",
			message: fmt.Sprintf("there is no %s; paths begin with %s", wire.Printable(x.r.URL.Path), prefix),
		}
	}})
	router.MethodNotAllowedHandler = s.handler(&route{open: true, name: "unknown", serve: func(x *exchange) error {
		allowed := methodsOf(router, x.r)
		x.w.Header()["Allow"] = []string{strings.Join(append(allowed, http.MethodOptions), ", ")}
		if x.r.Method == http.MethodOptions {
			x.nothing()
			return nil
		}
		serves := slices.DeleteFunc(allowed, func(m string) bool { return m == http.MethodHead })
		return &problem{
			http: http.StatusMethodNotAllowed, code: "METHOD_NOT_ALLOWED",
			message: fmt.Sprintf("%s takes %s, not %s", wire.Printable(x.r.URL.Path), strings.Join(serves, " or "), wire.Printable(x.r.Method)),
		}
	}})
	return s.withCORS(router)
}

// methodsOf lists what a path takes, but for OPTIONS, which every path does.
func methodsOf(router *mux.Router, r *http.Request) []string {
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
		probe := r.Clone(r.Context())
		probe.Method = method
		var match mux.RouteMatch
		if router.Match(probe, &match) && match.MatchErr == nil {
			allowed = append(allowed, method)
		}
	}
	return allowed
}
