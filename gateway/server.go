package gateway

import (
	"context"
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
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/bounds"
	"github.com/mindcoordinator/mind/gateway/cores"
	"github.com/mindcoordinator/mind/gateway/credentials"
	"github.com/mindcoordinator/mind/gateway/downloads"
	"github.com/mindcoordinator/mind/gateway/fanout"
	"github.com/mindcoordinator/mind/gateway/flows"
	"github.com/mindcoordinator/mind/gateway/jobcache"
	"github.com/mindcoordinator/mind/gateway/metrics"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/ratelimit"
	"github.com/mindcoordinator/mind/gateway/readiness"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/stream"
	"github.com/mindcoordinator/mind/gateway/submits"
	"github.com/mindcoordinator/mind/gateway/tokenexchange"
	"github.com/mindcoordinator/mind/gateway/tunnel"
	"github.com/mindcoordinator/mind/gateway/uploads"
	"github.com/mindcoordinator/mind/gateway/wire"
	"github.com/mindcoordinator/mind/pki"
)

// server serves requests: what all of them share, and the handlers of each kind of path.
type server struct {
	rest.Server
	config  Config
	limiter *ratelimit.Limiter
	// client calls the coordinators; the fields below are their services, for the handlers of this package.
	client      *client.Client
	jobs        v1.JobServiceClient
	evaluations v1.EvaluationServiceClient
	cluster     v1.ClusterServiceClient
	launchers   v1.LauncherServiceClient
	quotas      v1.QuotaServiceClient
	audit       v1.AuditServiceClient
	// The handlers of other packages.
	credentials *credentials.Handlers
	cores       *cores.Handlers
	downloads   *downloads.Handlers
	flows       *flows.Handlers
	streams     *stream.Handlers
	submits     *submits.Handlers
	tunnels     *tunnel.Handlers
	uploads     *uploads.Handlers
	// exchanger exchanges tokens for ScaiDrive and ScaiAtlas; nil: disabled.
	exchanger *tokenexchange.Exchanger
	// hub holds the streams that callers share.
	hub *fanout.Hub
	// listed keeps a copy of listed jobs; nil: disabled.
	listed *jobcache.Cache
	// document is the OpenAPI document, built at the first request for it.
	document func() []byte

	draining atomic.Bool
	ready    *readiness.Watcher
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
		Server: rest.Server{
			Log: config.Logger, Metrics: metrics.New(config.Registry, hub), Proxies: trusted, Timeouts: config.Timeouts, Limits: config.Limits,
			Opened: bounds.NewStreams(config.Bounds.Streams), Drained: make(chan struct{}),
		},
		config: config, hub: hub, limiter: ratelimit.New(), client: c, jobs: c.Jobs(), cluster: c.Cluster(),
		evaluations: v1.NewEvaluationServiceClient(c), launchers: v1.NewLauncherServiceClient(c),
		quotas: v1.NewQuotaServiceClient(c), audit: v1.NewAuditServiceClient(c),
		cores: cores.New(c), flows: flows.New(c), tunnels: tunnel.New(c),
	}
	s.streams = stream.New(stream.Source{Jobs: s.jobs, Events: v1.NewEventServiceClient(c), Longest: config.Timeouts.Stream}, hub)
	if s.credentials, err = credentials.New(c, credentials.Config{
		Authenticator: config.Authenticator, Tokens: config.Tokens, OIDC: config.OIDC, Login: config.Login,
	}); err != nil {
		return nil, err
	}
	s.ready = readiness.New(s.cluster, config.Timeouts.NoLeader)
	saved, err := downloads.Open(config.CheckpointArchive)
	if err != nil {
		return nil, err
	}
	s.downloads = downloads.New(c, saved)
	if s.uploads, err = uploads.New(c, uploads.Config{
		URL: config.CheckpointArchive.URL, Access: config.CheckpointArchive.Access, Bytes: config.UploadBytes, Keep: config.UploadKeep, Log: config.Logger,
	}); err != nil {
		return nil, err
	}
	s.submits = submits.NewHandlers(s.jobs, s.uploads)
	if config.TokenExchange != nil {
		if s.exchanger, err = tokenexchange.New(*config.TokenExchange); err != nil {
			return nil, err
		}
		s.Exchange = tokenexchange.Calls{Exchanger: s.exchanger, IssuedOnly: config.ExchangeIssuedOnly}.AddTokens
	}
	s.document = sync.OnceValue(func() []byte { _, operations := s.routes(); return openapi.Document(operations) })
	if config.JobCache != "" {
		if s.listed, err = jobcache.Open(jobcache.Config{
			Database: config.JobCache, Keep: config.JobCacheKeep, Encode: wire.AppendPublic, Logger: config.Logger, Registry: config.Registry,
		}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// handler handles every request, in the published order: 401, 403, then 413 and 422 while the body is read, then the call.
func (s *server) handler(route *rest.Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		x := rest.NewRequest(&s.Server, route, w, r)
		defer func() {
			if fault := recover(); fault != nil {
				panicked(x, fault)
			}
			s.Metrics.Observe(route.Name, route.Stream, x.Code, time.Since(start))
		}()
		if !route.Open {
			caller, p := s.credentials.Authenticate(x)
			if p != nil {
				x.Refuse(p)
				return
			}
			x.Caller = caller
			if p := s.admit(x, start); p != nil {
				x.Refuse(p)
				return
			}
			if len(s.config.ModuleTenants) > 0 && (strings.HasPrefix(route.Path, rest.Modules) || route.Bare) && !slices.Contains(s.config.ModuleTenants, caller.Tenant) {
				x.Refuse(&rest.Problem{
					HTTP: http.StatusForbidden, Code: "MODULE_NOT_ENABLED", Message: "ScaiMind is not enabled for this tenant",
				})
				return
			}
			if len(route.AnyOf) > 0 && !caller.May(route.AnyOf...) {
				x.Refuse(&rest.Problem{
					HTTP: http.StatusForbidden, Code: "AUTHZ_PERMISSION_DENIED",
					Message: "this needs the permission " + strings.Join(route.AnyOf, " or "),
				})
				return
			}
		}
		if p := rest.CheckURL(r); p != nil {
			x.Refuse(p)
			return
		}
		if p := route.CheckQuery(r); p != nil {
			x.Refuse(p)
			return
		}
		if err := route.Serve(x); err != nil {
			x.Fail(err)
		}
	})
}

// panicked handles a panic in one request, so that it does not end all others.
func panicked(x *rest.Request, fault any) {
	if fault == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		panic(fault)
	}
	x.Server.Log.LogAttrs(context.Background(), slog.LevelError, "panic in a request", slog.String("event", "gateway_panic"),
		slog.String("request_id", x.RequestID), slog.String("route", x.Route.Name), slog.Any("fault", fault),
		slog.String("stack", string(debug.Stack())))
	if x.Code != 0 {
		panic(http.ErrAbortHandler) // part of the answer was sent: break the connection
	}
	x.Refuse(&rest.Problem{
		HTTP: http.StatusInternalServerError, Code: "INTERNAL",
		Message: "internal error; the gateway's log has the details under the request id",
	})
}
