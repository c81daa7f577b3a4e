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
	"github.com/mindcoordinator/mind/gateway/flows"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/origins"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
	"github.com/mindcoordinator/mind/web"
)

// routes lists the served routes in the order in which requests are matched, with their descriptions for the document.
func (s *server) routes() ([]rest.Route, []openapi.Operation) {
	var all []rest.Route
	var document []openapi.Operation
	for _, e := range s.endpoints() {
		declared := methods.Of(e.RPC)
		if e.Own.Path != "" {
			declared = &methods.Method{Routes: []methods.Route{e.Own}, ReadOnly: !e.Writes, Permissions: e.Permissions, OperatorPermission: e.Operator}
		}
		for _, at := range declared.Routes {
			if at.Variant != e.Variant {
				continue
			}
			r := rest.Route{
				Route: at, AnyOf: declared.Permissions, Open: e.Open, Stream: declared.Streams, Socket: e.Doc.Socket, Write: !declared.ReadOnly,
				Operator: declared.OperatorPermission, Secrets: declared.SecretPermissions, Tokens: declared.DataTokens, Serve: e.Serve, Most: e.Most,
				Name: at.Method + " " + strings.TrimPrefix(at.Path, rest.Prefix),
			}
			if len(r.Secrets) == 0 {
				r.Secrets = []string{auth.PermissionManage}
			}
			o := e.Doc
			r.Query = o.Query
			if r.Serve == nil {
				if takesBody(at) {
					o.In, o.Without = declared.NewRequest(), []string{at.Field}
					o.Optional = at.OptionalBody || !hasOtherFields(o.In, at.Field)
				}
				r.Serve = s.declaredRoute(declared, at, e.Query, o.Optional)
				if o.OutSchema == nil {
					o.Out = answerOf(at, declared.NewRequest(), declared.NewReply())
				}
			}
			all = append(all, r)
			o.Method, o.Path, o.Summary, o.Code, o.Choice = at.Method, at.Path, at.Summary, at.Code, at.Choice
			o.Open, o.Stream, o.Permissions, o.Bare = r.Open, r.Stream && !r.Socket, r.AnyOf, at.Bare
			document = append(document, o)
		}
	}
	return all, document
}

// router builds a mux router from the table.
func (s *server) router() http.Handler {
	all, _ := s.routes()
	// An escaped slash belongs to a name: the tenant "a/b" is one segment.
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for i := range all {
		r := &all[i]
		methods := []string{r.Method}
		if r.Method == http.MethodGet && !r.Stream {
			methods = append(methods, http.MethodHead) // net/http omits the body
		}
		handler := s.handler(r)
		if !r.Stream {
			handler = compressed(handler)
		}
		router.Handle(r.Path, handler).Methods(methods...)
	}
	router.PathPrefix(web.Prefix).Handler(web.Handler())
	unknown := s.handler(&rest.Route{Open: true, Name: "unknown", Serve: func(x *rest.Request) error {
		speakAsPath(x)
		return &rest.Problem{
			HTTP: http.StatusNotFound, Code: "NOT_FOUND",
			Message: fmt.Sprintf("there is no %s; paths begin with %s", wire.Printable(x.R.URL.Path), rest.Prefix),
		}
	}})
	router.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !web.Redirect(w, r) {
			unknown.ServeHTTP(w, r)
		}
	})
	router.MethodNotAllowedHandler = s.handler(&rest.Route{Open: true, Name: "unknown", Serve: func(x *rest.Request) error {
		allowed := methodsOf(router, x.R)
		x.W.Header()["Allow"] = []string{strings.Join(append(allowed, http.MethodOptions), ", ")}
		if x.R.Method == http.MethodOptions {
			x.Nothing()
			return nil
		}
		serves := slices.DeleteFunc(allowed, func(m string) bool { return m == http.MethodHead })
		speakAsPath(x)
		return &rest.Problem{
			HTTP: http.StatusMethodNotAllowed, Code: "METHOD_NOT_ALLOWED",
			Message: fmt.Sprintf("%s takes %s, not %s", wire.Printable(x.R.URL.Path), strings.Join(serves, " or "), wire.Printable(x.R.Method)),
		}
	}})
	return origins.Allow(router, s.config.CORSOrigins,
		[]string{"Authorization", "Content-Type", rest.HeaderIdempotencyKey, rest.HeaderLastEventID, rest.HeaderRequestID, rest.HeaderTimeout, rest.HeaderConsistency, rest.HeaderIfNoneMatch, rest.HeaderIfMatch},
		[]string{rest.HeaderRequestID, rest.HeaderIndex, rest.HeaderETag, downloads.HeaderDigest, "Retry-After", headerLimit, headerRemaining, headerReset})
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

// speakAsPath gives an answer about a path that has no route the form of its neighbours.
func speakAsPath(x *rest.Request) {
	if flows.Has(x.R.URL.Path) {
		bare := *x.Route
		bare.Bare = true
		x.Route = &bare
	}
}
