package gateway

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/denials"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/bounds"
	"github.com/mindcoordinator/mind/gateway/downloads"
	"github.com/mindcoordinator/mind/gateway/fanout"
	"github.com/mindcoordinator/mind/gateway/jobcache"
	"github.com/mindcoordinator/mind/gateway/login"
	"github.com/mindcoordinator/mind/gateway/metrics"
	"github.com/mindcoordinator/mind/gateway/oidc"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/ratelimit"
	"github.com/mindcoordinator/mind/gateway/readiness"
	"github.com/mindcoordinator/mind/gateway/session"
	"github.com/mindcoordinator/mind/gateway/stream"
	"github.com/mindcoordinator/mind/gateway/submits"
	"github.com/mindcoordinator/mind/gateway/tokenexchange"
	"github.com/mindcoordinator/mind/gateway/wire"
	"github.com/mindcoordinator/mind/pki"
)

// server holds the state that the handlers share.
type server struct {
	config  Config
	log     *slog.Logger
	auth    auth.Authenticator
	metrics *metrics.Metrics
	submits *submits.Submits
	limiter *ratelimit.Limiter
	proxies auth.Proxies
	issued  *auth.APITokens
	// sessions authenticates the callers who have signed in.
	sessions       *session.Keeper
	sessionService v1.SessionServiceClient
	// login signs users in at an OpenID Connect issuer; nil: disabled.
	login *login.Flow
	// client calls the coordinators; the fields below are their services, for handlers that are not declared routes.
	client      *client.Client
	jobs        v1.JobServiceClient
	evaluations v1.EvaluationServiceClient
	cores       v1.CoreServiceClient
	flows       v1.FlowServiceClient
	cluster     v1.ClusterServiceClient
	launchers   v1.LauncherServiceClient
	tokens      v1.TokenServiceClient
	quotas      v1.QuotaServiceClient
	audit       v1.AuditServiceClient
	// watched makes the subjects of event streams.
	watched stream.Source
	// opened counts the streams of each tenant.
	opened *bounds.Streams
	// denied collects denied requests until they are reported to the coordinators.
	denied denials.Tally
	// failedSignIns says which failures of signing in are logged.
	failedSignIns seldom
	// exchanger exchanges tokens for ScaiDrive and ScaiAtlas; nil: disabled.
	exchanger *tokenexchange.Exchanger
	// hub holds the streams that callers share.
	hub *fanout.Hub
	// listed keeps a copy of listed jobs; nil: disabled.
	listed *jobcache.Cache
	// document is the OpenAPI document, built at the first request for it.
	document func() []byte
	// downloads sends checkpoints.
	downloads *downloads.Sender
	uploads   *uploadStore
	index     atomic.Uint64 // the newest index in any answer

	draining atomic.Bool
	drained  chan struct{} // closed when event streams are to end
	ready    *readiness.Watcher
	streams  sync.WaitGroup
}

// Under load, two connections gain a few percent over one; more connections lose it again.
const connsPerCoordinator = 2

func newServer(config Config) (*server, error) {
	dial := client.Config{Addrs: config.Coordinators, Secret: config.APISecret, Conns: connsPerCoordinator, DialOptions: config.DialOptions}
	if config.CertFile != "" {
		keys, err := pki.Open(pki.Files{Cert: config.CertFile, Key: config.KeyFile, CA: config.CAFile}, config.Logger)
		if err != nil {
			return nil, err
		}
		config.Registry.MustRegister(metrics.CertificateEnd("coordinators", keys))
		dial.DialOptions = append([]grpc.DialOption{grpc.WithTransportCredentials(keys.Client(pki.RoleCoordinator).Credentials())}, dial.DialOptions...)
	}
	c, err := client.Dial(dial)
	if err != nil {
		return nil, err
	}
	trusted, err := auth.ParseProxies(config.TrustedProxies)
	if err != nil {
		return nil, err
	}
	hub := fanout.New()
	s := &server{
		config: config, log: config.Logger, auth: config.Authenticator, metrics: metrics.New(config.Registry, hub), hub: hub,
		client: c, jobs: c.Jobs(), cluster: c.Cluster(), submits: submits.New(c.Jobs()), limiter: ratelimit.New(), proxies: trusted, drained: make(chan struct{}),
		opened: bounds.NewStreams(config.Bounds.Streams),
	}
	s.tokens = v1.NewTokenServiceClient(c)
	s.watched = stream.Source{Jobs: s.jobs, Events: v1.NewEventServiceClient(c), Longest: config.Timeouts.Stream}
	s.evaluations = v1.NewEvaluationServiceClient(c)
	s.cores = v1.NewCoreServiceClient(c)
	s.flows = v1.NewFlowServiceClient(c)
	s.launchers = v1.NewLauncherServiceClient(c)
	s.quotas, s.audit = v1.NewQuotaServiceClient(c), v1.NewAuditServiceClient(c)
	s.issued = auth.NewAPITokens(s.tokens)
	s.sessionService = v1.NewSessionServiceClient(c)
	s.sessions = session.NewKeeper(s.sessionService, s.issued.Limit())
	if config.Login != nil && config.OIDC != nil {
		if s.login, err = login.New(*config.Login, *config.OIDC); err != nil {
			return nil, err
		}
	}
	s.ready = readiness.New(s.cluster, config.Timeouts.NoLeader)
	if s.downloads, err = downloads.Open(config.CheckpointArchive); err != nil {
		return nil, err
	}
	if s.uploads, err = openUploads(config); err != nil {
		return nil, err
	}
	if config.TokenExchange != nil {
		if s.exchanger, err = tokenexchange.New(*config.TokenExchange); err != nil {
			return nil, err
		}
	}
	s.document = sync.OnceValue(func() []byte { _, operations := routes(); return openapi.Document(operations) })
	if s.auth == nil {
		known := auth.FirstOf{auth.NewStaticTokens(config.Tokens), s.issued}
		if config.OIDC != nil {
			verifier, err := oidc.New(*config.OIDC)
			if err != nil {
				return nil, err
			}
			known = append(known, auth.Issuer{Verifier: verifier})
		}
		s.auth = known
	}
	if config.JobCache != "" {
		if s.listed, err = jobcache.Open(jobcache.Config{
			Database: config.JobCache, Keep: config.JobCacheKeep, Encode: wire.AppendPublic, Logger: config.Logger, Registry: config.Registry,
		}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// sawIndex records the index of an answer and returns it; for an answer without one, it returns the newest recorded index.
func (s *server) sawIndex(index uint64) uint64 {
	for {
		newest := s.index.Load()
		if index == 0 {
			return newest
		}
		if index <= newest || s.index.CompareAndSwap(newest, index) {
			return index
		}
	}
}

// handler handles every request, in the published order: 401, 403, then 413 and 422 while the body is read, then the call.
func (s *server) handler(route *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		x := &httpRequest{server: s, route: route, w: w, r: r, requestID: requestIDOf(r)}
		defer func() {
			if fault := recover(); fault != nil {
				x.panicked(fault)
			}
			s.metrics.Observe(route.name, route.stream, x.code, time.Since(start))
		}()
		if !route.open {
			caller, p := s.authenticate(x)
			if p != nil {
				x.refuse(p)
				return
			}
			x.caller = caller
			if p := s.admit(x, start); p != nil {
				x.refuse(p)
				return
			}
			if len(s.config.ModuleTenants) > 0 && (strings.HasPrefix(route.Path, modules) || route.Bare) && !slices.Contains(s.config.ModuleTenants, caller.Tenant) {
				x.refuse(&problem{
					http: http.StatusForbidden, code: "MODULE_NOT_ENABLED", message: "ScaiMind is not enabled for this tenant",
				})
				return
			}
			if len(route.anyOf) > 0 && !caller.May(route.anyOf...) {
				x.refuse(&problem{
					http: http.StatusForbidden, code: "AUTHZ_PERMISSION_DENIED",
					message: "this needs the permission " + strings.Join(route.anyOf, " or "),
				})
				return
			}
		}
		if p := checkURL(r); p != nil {
			x.refuse(p)
			return
		}
		if p := route.checkQuery(r); p != nil {
			x.refuse(p)
			return
		}
		if err := route.serve(x); err != nil {
			x.fail(err)
		}
	})
}

// authenticate finds the caller.
func (s *server) authenticate(x *httpRequest) (*auth.Caller, *problem) {
	r := x.r
	if tickets := r.URL.Query()[queryTicket]; len(tickets) > 0 && (x.route.stream || r.Header.Get("Authorization") == "") {
		return s.admitTicket(x, tickets)
	}
	if len(r.Header["Authorization"]) == 0 {
		if caller, p := s.admitSession(x); caller != nil || p != nil {
			return caller, p
		}
	}
	if len(r.Header["Authorization"]) < 2 && r.Header.Get("Authorization") == "" {
		return nil, &problem{
			http: http.StatusUnauthorized, code: "AUTH_TOKEN_MISSING", message: "send an Authorization header: Bearer TOKEN",
		}
	}
	invalidToken := &problem{http: http.StatusUnauthorized, code: "AUTH_TOKEN_INVALID", message: "Invalid or expired authentication token"}
	token := bearer(r)
	if token == "" {
		return nil, invalidToken
	}
	x.credential = sha256.Sum256([]byte(token))
	x.recheck = func(ctx context.Context) (*auth.Caller, error) { return s.auth.Authenticate(ctx, token) }
	caller, err := x.recheck(auth.WithAddress(r.Context(), s.proxies.ClientOf(r)))
	if err != nil {
		return nil, s.unchecked(x, err, "token", invalidToken)
	}
	return caller, nil
}

// bearer returns the token of a request; empty: none, or of an unknown kind.
func bearer(r *http.Request) string {
	const scheme = "bearer "
	headers := r.Header["Authorization"]
	if len(headers) != 1 { // A proxy may have checked the other one.
		return ""
	}
	header := headers[0]
	if len(header) <= len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return ""
	}
	return strings.TrimSpace(header[len(scheme):])
}

// panicked handles a panic in one request, so that it does not end all others.
func (x *httpRequest) panicked(fault any) {
	if fault == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		panic(fault)
	}
	x.server.log.LogAttrs(context.Background(), slog.LevelError, "panic in a request", slog.String("event", "gateway_panic"),
		slog.String("request_id", x.requestID), slog.String("route", x.route.name), slog.Any("fault", fault),
		slog.String("stack", string(debug.Stack())))
	if x.code != 0 {
		panic(http.ErrAbortHandler) // part of the answer was sent: break the connection
	}
	x.refuse(&problem{
		http: http.StatusInternalServerError, code: "INTERNAL",
		message: "internal error; the gateway's log has the details under the request id",
	})
}
