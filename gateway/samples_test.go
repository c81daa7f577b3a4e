package gateway_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// newInner returns a server and the gate to it.
func newInner(t testing.TB, config gateway.Config) (*gateway.Server, *gatewaytest.Gate) {
	s, err := gateway.NewServer(config)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s, gatewaytest.GateOf(t, s.Router())
}

// allRoutes returns the served routes.
func allRoutes() []rest.Route {
	all, _ := new(gateway.Server).Routes()
	return all
}

var segmentName = regexp.MustCompile(`\{[a-z_]+\}`)

// pathOf returns a path of a route, with a value for its variable.
func pathOf(r rest.Route) string {
	path := strings.NewReplacer("/tenants/{id}", "/tenants/-", "{framework}", "CUSTOM").Replace(r.Path)
	return segmentName.ReplaceAllString(path, "n1")
}

// goodBodies are bodies of the routes that the gateway looks into.
var goodBodies = map[string]string{
	"POST /jobs": `{"name":"x"}`, "POST /jobs/batch": `{"jobs":[{"name":"x"},{"name":"y"}]}`,
	"POST /tokens": `{"permissions":["scaimind:view"]}`, "POST /evaluations": `{"job_id":"j","benchmarks":[{"name":"mmlu"}]}`,
}

// goodQueries are queries of the routes that need one.
var goodQueries = map[string]string{"GET /evaluations/compare": "?ids=eval_1,eval_2"}

// sample returns a path with its query and a body of a request that the gateway accepts.
func sample(r rest.Route) (path, body string) {
	body = goodBodies[r.Name]
	if body == "" && gateway.TakesBody(r.Route) {
		body = "{}"
	}
	return pathOf(r) + goodQueries[r.Name], body
}
