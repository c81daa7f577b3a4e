package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/mindcoordinator/mind/api/methods"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/downloads"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/origins"
	"github.com/mindcoordinator/mind/gateway/wire"
	"github.com/mindcoordinator/mind/web"
)

// prefix is the prefix of all paths that ScaiMind published.
const prefix = modules + "scaimind"

// modules is the prefix of the paths of all modules. ScaiCore submits jobs too, so a tenant has both modules or none.
const modules = "/v1/modules/"

// route is one method of one path.
type route struct {
	methods.Route
	// anyOf are permissions, of which the caller needs one; none: any caller may use the route.
	anyOf  []string
	open   bool // no token is required
	stream bool // the answer is an event stream, or a WebSocket
	socket bool // the answer is a WebSocket
	write  bool // the call may change something
	// operator is the permission that makes the caller an operator in this call; empty: there is none.
	operator string
	// secrets is the permission that shows secrets in answers.
	secrets []string
	// tokens: the call carries tokens for ScaiDrive and ScaiAtlas.
	tokens bool
	serve  func(x *httpRequest) error
	// most limits the bytes of a body; 0: the limit of the configuration.
	most int64
	// query are the parameters that the route takes.
	query []openapi.Parameter

	name string // "GET /jobs/{id}", for metrics and logs
}

func (r *route) bodyLimit(l Limits) int64 {
	if r.most > 0 {
		return r.most
	}
	if r.Batch {
		return l.BatchBody
	}
	return l.Body
}

// routes lists the served routes in the order in which requests are matched, with their descriptions for the document.
func routes() ([]route, []openapi.Operation) {
	var all []route
	var document []openapi.Operation
	for _, e := range endpoints() {
		declared := methods.Of(e.rpc)
		if e.own.Path != "" {
			declared = &methods.Method{Routes: []methods.Route{e.own}, ReadOnly: !e.writes, Permissions: e.permissions, OperatorPermission: e.operator}
		}
		for _, at := range declared.Routes {
			if at.Variant != e.variant {
				continue
			}
			r := route{
				Route: at, anyOf: declared.Permissions, open: e.open, stream: declared.Streams, socket: e.doc.Socket, write: !declared.ReadOnly,
				operator: declared.OperatorPermission, secrets: declared.SecretPermissions, tokens: declared.DataTokens, serve: e.serve, most: e.most,
				name: at.Method + " " + strings.TrimPrefix(at.Path, prefix),
			}
			if len(r.secrets) == 0 {
				r.secrets = []string{auth.PermissionManage}
			}
			o := e.doc
			r.query = o.Query
			if r.serve == nil {
				if takesBody(at) {
					o.In, o.Without = declared.NewRequest(), []string{at.Field}
					o.Optional = at.OptionalBody || !hasOtherFields(o.In, at.Field)
				}
				r.serve = declaredRoute(declared, at, e.query, o.Optional)
				if o.OutSchema == nil {
					o.Out = answerOf(at, declared.NewRequest(), declared.NewReply())
				}
			}
			all = append(all, r)
			o.Method, o.Path, o.Summary, o.Code, o.Choice = at.Method, at.Path, at.Summary, at.Code, at.Choice
			o.Open, o.Stream, o.Permissions, o.Bare = r.open, r.stream && !r.socket, r.anyOf, at.Bare
			document = append(document, o)
		}
	}
	return all, document
}

// router builds a mux router from the table.
func (s *server) router() http.Handler {
	all, _ := routes()
	// An escaped slash belongs to a name: the tenant "a/b" is one segment.
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for i := range all {
		r := &all[i]
		methods := []string{r.Method}
		if r.Method == http.MethodGet && !r.stream {
			methods = append(methods, http.MethodHead) // net/http omits the body
		}
		handler := s.handler(r)
		if !r.stream {
			handler = compressed(handler)
		}
		router.Handle(r.Path, handler).Methods(methods...)
	}
	router.PathPrefix(web.Prefix).Handler(web.Handler())
	unknown := s.handler(&route{open: true, name: "unknown", serve: func(x *httpRequest) error {
		x.speakAsPath()
		return &problem{
			http: http.StatusNotFound, code: "NOT_FOUND",
			message: fmt.Sprintf("there is no %s; paths begin with %s", wire.Printable(x.r.URL.Path), prefix),
		}
	}})
	router.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !web.Redirect(w, r) {
			unknown.ServeHTTP(w, r)
		}
	})
	router.MethodNotAllowedHandler = s.handler(&route{open: true, name: "unknown", serve: func(x *httpRequest) error {
		allowed := methodsOf(router, x.r)
		x.w.Header()["Allow"] = []string{strings.Join(append(allowed, http.MethodOptions), ", ")}
		if x.r.Method == http.MethodOptions {
			x.nothing()
			return nil
		}
		serves := slices.DeleteFunc(allowed, func(m string) bool { return m == http.MethodHead })
		x.speakAsPath()
		return &problem{
			http: http.StatusMethodNotAllowed, code: "METHOD_NOT_ALLOWED",
			message: fmt.Sprintf("%s takes %s, not %s", wire.Printable(x.r.URL.Path), strings.Join(serves, " or "), wire.Printable(x.r.Method)),
		}
	}})
	return origins.Allow(router, s.config.CORSOrigins,
		[]string{"Authorization", "Content-Type", headerIdempotencyKey, headerLastEventID, headerRequestID, headerTimeout, headerConsistency, headerIfNoneMatch, headerIfMatch},
		[]string{headerRequestID, headerIndex, headerETag, downloads.HeaderDigest, "Retry-After", headerLimit, headerRemaining, headerReset})
}

// methodsOf lists the methods of a path, except OPTIONS, which every path accepts.
func methodsOf(router *mux.Router, r *http.Request) []string {
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		probe := r.Clone(r.Context())
		probe.Method = method
		var match mux.RouteMatch
		if router.Match(probe, &match) && match.MatchErr == nil {
			allowed = append(allowed, method)
		}
	}
	return allowed
}
