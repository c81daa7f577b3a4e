package coordinator

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/access"
	"github.com/mindcoordinator/mind/coordinator/admin"
	"github.com/mindcoordinator/mind/coordinator/admission"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/cores"
	"github.com/mindcoordinator/mind/coordinator/data"
	"github.com/mindcoordinator/mind/coordinator/datatokens"
	"github.com/mindcoordinator/mind/coordinator/evaluations"
	"github.com/mindcoordinator/mind/coordinator/events"
	"github.com/mindcoordinator/mind/coordinator/flows"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/interpreter"
	"github.com/mindcoordinator/mind/coordinator/jobs"
	"github.com/mindcoordinator/mind/coordinator/links"
	"github.com/mindcoordinator/mind/coordinator/members"
	"github.com/mindcoordinator/mind/coordinator/metrics"
	"github.com/mindcoordinator/mind/coordinator/notify"
	"github.com/mindcoordinator/mind/coordinator/output"
	"github.com/mindcoordinator/mind/coordinator/recovery"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/coordinator/schedules"
	"github.com/mindcoordinator/mind/coordinator/selfcheck"
	"github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/coordinator/term"
	"github.com/mindcoordinator/mind/coordinator/tunnels"
	"github.com/mindcoordinator/mind/coordinator/upgrade"
	"github.com/mindcoordinator/mind/coordinator/votes"
	"github.com/mindcoordinator/mind/coordinator/windows"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

// server is one running coordinator. The files beside this one add its duties.
type server struct {
	v1.UnimplementedOperatorServiceServer
	v1.UnimplementedAgentServiceServer

	config   Config
	log      *slog.Logger
	machine  *fsm.Machine
	replica  *replica.Replica
	pool     *gossip.Pool // nil: no gossip
	metrics  *metrics.Metrics
	sessions *session.Service
	votes    *votes.Service
	// term is the term in which this coordinator leads; nil: it does not lead.
	term atomic.Pointer[term.Term]

	tls       bool
	serverTLS *tls.Config
	clientTLS *pki.Client
	// This coordinator's certificate and its requirements for others; nil without TLS.
	coordinatorTLS, agentTLS credentials.TransportCredentials
	sealer                   datatokens.Sealer

	links       *links.Links // to the other coordinators
	agents      *links.Links // to the agents' TaskService
	output      *output.Service
	capacity    *admission.Capacity
	forecasts   *forecast.Forecasts
	jobs        *jobs.Service
	evaluations *evaluations.Service
	schedules   *schedules.Service
	cores       *cores.Service
	flows       *flows.Service
	interpreter *interpreter.Interpreter
	notices     *notify.Sender
	data        *data.Service
	events      *events.Service
	selfcheck   *selfcheck.Service
	access      *access.Service
	admin       *admin.Service
	members     *members.Service
	upgrade     *upgrade.Service
	recovery    *recovery.Service
	// levelDir is the folder in which the feature level is stored; empty: none. noted is the stored level; it belongs
	// to the applying goroutine.
	levelDir string
	noted    level.Level
	// replayTo is the first commit index that this replica learned; 0: none yet.
	replayTo atomic.Uint64
	// life ends, by die, when the server shuts down or goes out of service. background counts the goroutines that must
	// end before Run returns.
	life       context.Context
	die        context.CancelFunc
	background sync.WaitGroup
}

// grpcServer makes the gRPC server with all services registered.
func (s *server) grpcServer() *grpc.Server {
	options := append(client.ServerKeepalive(),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
	)
	if s.serverTLS != nil {
		options = append(options, grpc.ConnectionTimeout(handshakeWithin),
			grpc.Creds(newHandshakes(credentials.NewTLS(s.serverTLS), s.config.Registry)))
	}
	server := grpc.NewServer(options...)
	v1.RegisterJobServiceServer(server, jobService{s.jobs, s.output, tunnels.New(s.replica, s.agents)})
	v1.RegisterClusterServiceServer(server, clusterService{unansweredCluster{}, s.admin, s.jobs})
	v1.RegisterOperatorServiceServer(server, operatorService{s, s.members, s.upgrade, s.recovery, s.selfcheck, s.replica})
	v1.RegisterAgentServiceServer(server, agentService{s, s.output})
	v1.RegisterTokenServiceServer(server, s.access)
	v1.RegisterSessionServiceServer(server, s.access)
	v1.RegisterEventServiceServer(server, s.events)
	healthpb.RegisterHealthServer(server, grpcHealth{server: s})
	v1.RegisterEvaluationServiceServer(server, s.evaluations)
	v1.RegisterLauncherServiceServer(server, s.admin)
	v1.RegisterDataServiceServer(server, s.data)
	v1.RegisterQuotaServiceServer(server, s.admin)
	v1.RegisterCalendarServiceServer(server, windows.New(s.replica))
	v1.RegisterScheduleServiceServer(server, s.schedules)
	v1.RegisterAuditServiceServer(server, s.access)
	v1.RegisterCoreServiceServer(server, s.cores)
	v1.RegisterFlowServiceServer(server, s.flows)
	return server
}

// staleAnyway are reads that the leader answers, and any coordinator where there is none: gateways ask for callers who read.
var staleAnyway = map[string]bool{v1.TokenService_VerifyToken_FullMethodName: true, v1.SessionService_VerifySessions_FullMethodName: true}

const (
	// maxRequestBytes leaves room for a batch of 8 MiB of JSON.
	maxRequestBytes = 16 << 20
	maxStreams      = 100_000
)

// unary handles every unary call: admission, forwarding of writes to the leader, and the metadata of the answer.
func (s *server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	c := call.Read(ctx)
	ctx = call.With(ctx, c)
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, s.panicked(c, info.FullMethod, p)
		}
		err = call.ToStatus(err)
		s.seal(ctx, c, err)
		s.metrics.Answered(info.FullMethod, err, time.Since(start))
		s.complain(c, info.FullMethod, err)
		s.access.NoteDenial(ctx, c, info.FullMethod, err)
	}()
	if err := s.admit(c, info.FullMethod); err != nil {
		return nil, err
	}
	if m := methods.Of(info.FullMethod); m.LeaderOnly && !(c.Stale && staleAnyway[info.FullMethod]) {
		return s.replica.Write(ctx, c, info.FullMethod, req, m.NewReply, handler)
	}
	return handler(ctx, req)
}

// stream does the same for streams. Streams are not forwarded: sessions belong to the leader, and the others are reads.
func (s *server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	start := time.Now()
	c := call.Read(ss.Context())
	ctx, cancel := context.WithCancel(call.With(ss.Context(), c))
	defer cancel()
	// A stream has no end of its own: it ends with this server.
	defer context.AfterFunc(s.life, cancel)()
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(c, info.FullMethod, p)
		}
		if err != nil && s.life.Err() != nil && ss.Context().Err() == nil {
			err = call.NotSent("this coordinator is shutting down: resume at another one")
		}
		err = call.ToStatus(err)
		s.seal(ctx, c, err)
		s.metrics.Answered(info.FullMethod, err, time.Since(start))
		s.complain(c, info.FullMethod, err)
		s.access.NoteDenial(ctx, c, info.FullMethod, err)
	}()
	if err := s.admit(c, info.FullMethod); err != nil {
		return err
	}
	return handler(srv, &callStream{ss, ctx})
}

// callStream carries the call in its context.
type callStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *callStream) Context() context.Context { return s.ctx }

func (s *server) panicked(c *call.Call, method string, p any) error {
	s.log.Error("call panicked", "method", method, "request_id", c.RequestID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return call.Errorf(codes.Internal, "internal error")
}

// complain logs errors that need an operator. Callers' errors are only answered.
func (s *server) complain(c *call.Call, method string, err error) {
	f, ok := err.(*call.Failure)
	if ok && (f.Code == codes.Internal || f.Code == codes.Unknown) {
		s.log.Error("call failed", "method", method, "request_id", c.RequestID, "code", f.Code.String(), "error", f.Message)
	}
}

// self returns this coordinator's entry for the others: its configured addresses, otherwise those in the list of
// initial voters.
func (s *server) self() coordinators.Coordinator {
	c := &s.config
	var listed Peer
	for _, p := range c.Peers {
		if p.ID == c.ID {
			listed = p
		}
	}
	return coordinators.Coordinator{
		ID: c.ID, RaftAddr: cmp.Or(c.RaftAdvertise, listed.RaftAddr, c.RaftAddr),
		GRPCAddr: cmp.Or(c.GRPCAdvertise, listed.GRPCAddr, c.GRPCAddr), HTTPAddr: cmp.Or(c.HTTPAdvertise, listed.HTTPAddr, c.HTTPAddr),
		GossipAddr: cmp.Or(c.GossipAdvertise, c.GossipAddr),
	}
}

// loadTLS reads the certificates, if configured.
func (s *server) loadTLS() error {
	if s.config.CertFile == "" {
		return nil
	}
	keys, err := pki.Open(pki.Files{Cert: s.config.CertFile, Key: s.config.KeyFile, CA: s.config.CAFile}, s.log)
	if err != nil {
		return err
	}
	s.serverTLS, s.clientTLS = keys.Server(), keys.Client(pki.RoleCoordinator)
	s.coordinatorTLS, s.agentTLS = s.clientTLS.Credentials(), keys.Client(pki.RoleAgent).Credentials()
	s.tls = true
	s.config.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mind_certificate_not_after_seconds", Help: "When the certificate expires, in Unix time.", ConstLabels: prometheus.Labels{"shown_to": "components"},
	}, func() float64 { return float64(keys.NotAfter().Unix()) }))
	return nil
}
