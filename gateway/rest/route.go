package rest

import (
	"net/http"
	"net/url"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/methods"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/wire"
)

const (
	// Modules is the prefix of the paths of all modules. ScaiCore submits jobs too, so a tenant has both modules or none.
	Modules = "/v1/modules/"
	// Prefix is the prefix of all paths that ScaiMind published.
	Prefix = Modules + "scaimind"
)

// Route is one method of one path.
type Route struct {
	methods.Route
	// AnyOf are permissions, of which the caller needs one; none: any caller may use the route.
	AnyOf  []string
	Open   bool // no token is required
	Stream bool // the answer is an event stream, or a WebSocket
	Socket bool // the answer is a WebSocket
	Write  bool // the call may change something
	// Operator is the permission that makes the caller an operator in this call; empty: there is none.
	Operator string
	// Secrets are permissions, of which one shows secrets in answers.
	Secrets []string
	// Tokens: the call carries tokens for ScaiDrive and ScaiAtlas.
	Tokens bool
	Serve  func(x *Request) error
	// Most limits the bytes of a body; 0: the limit of the configuration.
	Most int64
	// Query are the parameters that the route takes.
	Query []openapi.Parameter

	Name string // "GET /jobs/{id}", for metrics and logs
}

func (r *Route) bodyLimit(l Limits) int64 {
	if r.Most > 0 {
		return r.Most
	}
	if r.Batch {
		return l.BatchBody
	}
	return l.Body
}

// Endpoint serves the routes of one method, and describes its query, body and answer for the OpenAPI document. The protos
// declare everything else: paths, permissions, status and summary.
type Endpoint struct {
	// RPC is the method of the coordinators to call, and Variant selects one of its routes; Own is a route without an
	// RPC.
	RPC, Variant string
	Own          methods.Route
	Open         bool // no token is needed
	// Permissions of an own route: the caller needs one of them; none: any caller may use it.
	Permissions []string
	// Writes: the own route changes something, and Most limits its body; 0: as the configuration says.
	Writes bool
	Most   int64
	// Operator is the permission that makes the caller of an own route an operator.
	Operator string
	// Serve handles a request; nil: the route is served as the protos declare it.
	Serve func(x *Request) error
	Query QueryReader // nil: the only parameter of the query is the consistency
	Doc   openapi.Operation
}

// QueryReader reads the request of a route from its query.
type QueryReader func(query url.Values) (proto.Message, []wire.Fault)

// FromQuery makes a QueryReader of a function that reads one kind of request.
func FromQuery[M proto.Message](read func(url.Values) (M, []wire.Fault)) QueryReader {
	return func(query url.Values) (proto.Message, []wire.Fault) { return read(query) }
}

// Get returns a route of the gateway itself. choice: its path was not published.
func Get(path, summary string, choice bool) methods.Route {
	return methods.Route{Method: http.MethodGet, Path: path, Summary: summary, Code: http.StatusOK, Choice: choice}
}

// Redirecting returns a route of the gateway itself that sends browsers elsewhere.
func Redirecting(path, summary string) methods.Route {
	return methods.Route{Method: http.MethodGet, Path: path, Summary: summary, Code: http.StatusSeeOther, Choice: true}
}
