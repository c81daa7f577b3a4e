package gateway

import (
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// descriptions has one entry for each route.
func descriptions() map[string]description {
	integer := func(from, to int) object { return object{"type": "integer", "minimum": from, "maximum": to} }
	text := func(of string) object { return object{"type": "string", "description": of} }
	list := func(of object) object { return object{"type": "array", "items": of} }
	consistency := parameter{"consistency", "linearizable (default), or stale: one coordinator answers without asking the others", object{"enum": []string{"linearizable", "stale"}}}
	read := []parameter{consistency}
	ticket := parameter{"ticket", "of POST /v1/stream-tickets, in place of the header Authorization; good once", textSchema}
	lastEvent := parameter{"last_event_id", "go on after this event, as the header Last-Event-ID says", textSchema}
	follow := parameter{"follow", "default true; false: end when all that is there was sent", object{"type": "boolean"}}
	drainQuery := description{
		summary: "Give a node nothing new, so that it can be taken away", in: &v1.DrainNodeRequest{}, without: []string{"node_id"}, optional: true,
		outSchema: object{"type": "object"},
	}
	all := map[string]description{
		"POST /jobs": {summary: "Submit a job", in: &v1.SubmitJobRequest{}, out: &v1.SubmitJobResponse{}, code: 201},
		"POST /jobs/batch": {
			summary: "Submit up to 1,000 jobs, each for itself", ours: true, code: 207,
			inSchema:  object{"type": "object", "required": []string{"jobs"}, "properties": object{"jobs": list(object{"$ref": "#/components/schemas/SubmitJobRequest"})}},
			outSchema: object{"type": "object", "properties": object{"results": list(object{"type": "object"}), "accepted": integer(0, 1000), "refused": integer(0, 1000)}},
		},
		"GET /jobs/{id}": {summary: "Show one job", out: &v1.Job{}, query: read},
		"GET /jobs": {summary: "List the jobs of the tenant", out: &v1.ListJobsResponse{}, query: []parameter{
			{"status", "only these; repeatable", list(object{"type": "string"})},
			{"queue", "only of this queue", textSchema},
			{"label", "key=value; repeatable: all must match", list(object{"type": "string"})},
			{"page_size", "default 20", integer(1, 100)},
			{"page_token", "next_page_token of the page before", textSchema},
			{"order_by", "created_at, created_at desc (default) or priority desc", textSchema},
			consistency,
		}},
		"GET /jobs/{id}/explain": {summary: "Say why a job is where it is", out: &v1.ExplainJobResponse{}, ours: true, query: read},
		"POST /jobs/{id}/cancel": {summary: "Stop a job for good", in: &v1.CancelJobRequest{}, without: []string{"job_id"}, optional: true, out: &v1.Job{}},
		"POST /jobs/{id}/pause":  {summary: "Stop a job so that it can go on", in: &v1.PauseJobRequest{}, without: []string{"job_id"}, optional: true, out: &v1.Job{}},
		"POST /jobs/{id}/resume": {summary: "Let a paused job go on", in: &v1.ResumeJobRequest{}, without: []string{"job_id"}, optional: true, out: &v1.Job{}},
		"POST /jobs/{id}/retry":  {summary: "Try a finished job again, under the same id", in: &v1.RetryJobRequest{}, without: []string{"job_id"}, optional: true, out: &v1.Job{}},
		"GET /jobs/{id}/logs": {summary: "Follow what a job prints", query: []parameter{
			{"tail", "only the last lines of what is there; 0: from now on", integer(0, 1<<31-1)},
			follow,
			{"rank", "only this rank", integer(0, 1<<31-1)},
			{"attempt", "this attempt; default: the newest, and those that follow", integer(0, 1<<31-1)},
			{"since", "RFC 3339, seconds back from now, or a duration such as 10m", textSchema},
			lastEvent, ticket, consistency,
		}},
		"GET /jobs/{id}/metrics":        {summary: "Show the newest metrics of a job", out: &v1.GetJobMetricsResponse{}, ours: true, query: read},
		"GET /jobs/{id}/metrics/stream": {summary: "Follow the metrics of a job", query: []parameter{follow, lastEvent, ticket, consistency}},
		"GET /jobs/{id}/checkpoints":    {summary: "List the checkpoints of a job", out: &v1.ListCheckpointsResponse{}, ours: true, query: read},

		"POST /evaluations": {summary: "Score a model by benchmarks", missing: true, in: &v1.NewEvaluation{}, out: &v1.SubmitEvaluationResponse{}, code: 201},
		"GET /evaluations": {summary: "List the evaluations of the tenant, newest first", out: &v1.ListEvaluationsResponse{}, query: []parameter{
			{"status", "only these; repeatable", list(object{"type": "string"})},
			{"job_id", "only those of this job's model", textSchema},
			{"page_size", "default 20", integer(1, 100)},
			{"page_token", "next_page_token of the page before", textSchema},
			consistency,
		}},
		"GET /evaluations/{id}": {summary: "Show one evaluation and its results", out: &v1.Evaluation{}, query: read},
		"GET /evaluations/compare": {summary: "Lay the results of several evaluations side by side", missing: true, out: &v1.CompareEvaluationsResponse{}, ours: true, query: []parameter{
			{"ids", "2 to 20 ids, with commas between or repeated; the first that has a metric is what the others are compared with", textSchema},
			consistency,
		}},

		"GET /cluster":                    {summary: "Sum up the cluster", out: &v1.GetClusterResponse{}, query: read},
		"GET /cluster/nodes":              {summary: "List the nodes and their GPUs", out: &v1.ListNodesResponse{}, query: read},
		"GET /cluster/nodes/{id}":         {summary: "Show one node", out: &v1.Node{}, ours: true, query: read},
		"POST /cluster/nodes/{id}/drain":  drainQuery,
		"POST /cluster/nodes/{id}/enable": {summary: "Let a drained node work again", in: &v1.EnableNodeRequest{}, without: []string{"node_id"}, optional: true, out: &v1.Node{}},
		"DELETE /cluster/nodes/{id}":      {summary: "Forget a node of which nothing is alive any more", outSchema: object{"type": "object"}, ours: true},
		"GET /queue": {summary: "List the jobs that wait", missing: true, out: &v1.GetQueueResponse{}, query: []parameter{
			{"queue", "only this queue", textSchema}, {"limit", "default 100", integer(1, 1000)}, consistency,
		}},
		"GET /queues":                {summary: "List the queues", out: &v1.ListQueuesResponse{}, ours: true, query: read},
		"PUT /queues/{name}":         {summary: "Make a queue, or change one", in: &v1.PutQueueRequest{}, without: []string{"name"}, optional: true, out: &v1.Queue{}, ours: true},
		"DELETE /queues/{name}":      {summary: "Take away a queue that no unfinished job is in", out: &v1.DeleteQueueRequest{}, ours: true},
		"GET /checkpoints/{id}":      {summary: "Show one checkpoint", out: &v1.Checkpoint{}, ours: true, query: read},
		"DELETE /checkpoints/{id}":   {summary: "Take a checkpoint out of the state; its files stay", out: &v1.DeleteCheckpointRequest{}, ours: true},
		"GET /launchers":             {summary: "List how the processes of each framework start", out: &v1.ListLaunchersResponse{}, ours: true, query: read},
		"GET /launchers/{framework}": {summary: "Show how the processes of a framework start", out: &v1.Launcher{}, ours: true, query: read},
		"PUT /launchers/{framework}": {
			summary: "Replace how the processes of a framework start, for all tenants", in: &v1.Launcher{}, without: launcherToldOnly,
			out: &v1.Launcher{}, ours: true,
		},
		"DELETE /launchers/{framework}": {summary: "Go back to the launcher that mind comes with", out: &v1.Launcher{}, ours: true},
		"POST /data/validate":           {summary: "Let a node look whether it could fetch data sources", missing: true, in: &v1.ValidateDataRequest{}, out: &v1.ValidateDataResponse{}},
		"GET /data/cache":               {summary: "List what the nodes keep of the tenant's data", out: &v1.GetDataCacheResponse{}, query: read},
		"GET /events": {summary: "Follow what changes in the cluster", ours: true, query: []parameter{
			{"topic", "only job, lease, checkpoint, node, queue, quota or coordinator; repeatable", list(object{"type": "string"})},
			{"since_index", "begin after this state index; default: now", object{"type": "integer", "minimum": 0}},
			lastEvent, ticket, consistency,
		}},
		"POST /tokens": {summary: "Make an API token, and tell it once", in: &v1.CreateTokenRequest{}, without: []string{"digest"}, out: &v1.NewToken{}, code: 201, ours: true},
		"GET /tokens": {summary: "List the tokens of a tenant", out: &v1.ListTokensResponse{}, ours: true, query: []parameter{
			{"tenant_id", "of this tenant, for operators", textSchema}, consistency,
		}},
		"DELETE /tokens/{id}": {summary: "Revoke a token", out: &v1.RevokeTokenRequest{}, ours: true, query: []parameter{{"tenant_id", "of this tenant, for operators", textSchema}}},

		"GET /quotas":             {summary: "List the quotas of all tenants, for operators; for others that of their own", out: &v1.ListQuotasResponse{}, ours: true, query: read},
		"GET /tenants/{id}/quota": {summary: "Show what a tenant may have, and what it has", out: &v1.Quota{}, ours: true, query: read},
		"PUT /tenants/{id}/quota": {
			summary: "Set all limits of a tenant; one that is left out is none", in: &v1.Quota{}, without: quotaFigures, optional: true, out: &v1.Quota{}, ours: true,
		},
		"DELETE /tenants/{id}/quota": {summary: "Take every limit of a tenant away", out: &v1.DeleteQuotaRequest{}, ours: true},
		"GET /audit": {summary: "Say who did what, newest first", out: &v1.ListAuditRecordsResponse{}, ours: true, query: []parameter{
			{"user_id", "only what this user did", textSchema},
			{"action", "only this action, as node.drain, or what is about this, as node", textSchema},
			{"object", "only what was done to this: an id or a name", textSchema},
			{"outcome", "OK, or the code of a refusal as NOT_FOUND", textSchema},
			{"since", "from then on: RFC 3339, seconds back from now, or a duration such as 10m", textSchema},
			{"until", "before then", textSchema},
			{"page_size", "default 100", integer(1, 1000)},
			{"page_token", "next_page_token of the page before", textSchema},
			{"tenant_id", "of this tenant, or * for all: for operators", textSchema},
			consistency,
		}},

		"GET /v1/me": {summary: "Say who is calling", ours: true, outSchema: object{
			"type":       "object",
			"properties": object{"tenant_id": textSchema, "user_id": textSchema, "permissions": list(textSchema)},
		}},
		"GET /health": {summary: "Say that the gateway lives", outSchema: object{"type": "object", "properties": object{"status": text("ok")}}},
		"GET /health/ready": {summary: "Say whether requests sent here are answered", outSchema: readySchema, query: []parameter{
			{"consistency", "stale: say whether stale reads are, which need no leader", object{"enum": []string{"linearizable", "stale"}}},
		}},
		"GET /metrics":      {summary: "Metrics for Prometheus"},
		"GET /openapi.json": {summary: "This document", ours: true, outSchema: object{"type": "object"}},
	}
	all["POST /v1/stream-tickets"] = description{
		summary: "Make a ticket that opens one event stream within a minute, for those who cannot send a header", ours: true,
		in: &v1.StreamTicketRequest{}, optional: true, out: &v1.NewStreamTicket{}, code: 201,
	}
	all["GET /v1/auth/me"] = all["GET /v1/me"]
	for _, action := range []string{"GET /nodes", "GET /nodes/{id}", "POST /nodes/{id}/drain", "POST /nodes/{id}/enable", "DELETE /nodes/{id}"} {
		method, path, _ := strings.Cut(action, " ")
		d := all[method+" /cluster"+path]
		d.ours = true
		all[action] = d
	}
	return all
}
