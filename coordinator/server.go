package coordinator

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/denials"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
	"github.com/mindcoordinator/mind/raftnode"
)

// server is one coordinator at work. Each file beside this one adds what belongs to its duty.
type server struct {
	v1.UnimplementedJobServiceServer
	v1.UnimplementedClusterServiceServer
	v1.UnimplementedOperatorServiceServer
	v1.UnimplementedAgentServiceServer
	v1.UnimplementedTokenServiceServer
	v1.UnimplementedEventServiceServer
	v1.UnimplementedEvaluationServiceServer
	v1.UnimplementedLauncherServiceServer
	v1.UnimplementedDataServiceServer
	v1.UnimplementedQuotaServiceServer
	v1.UnimplementedAuditServiceServer

	config  Config
	log     *slog.Logger
	machine *fsm.Machine
	raft    *raftnode.Node
	pool    *gossip.Pool // nil: no gossip
	metrics *metrics

	tls       bool
	serverTLS *tls.Config
	clientTLS *pki.Client
	sealer    sealer

	links     links       // to the other coordinators
	agents    links       // to the agents' TaskService
	archive   archived    // what they shipped
	barrier   readBarrier // read indices from the leader, shared
	sessions  sessionTable
	attention attention
	renewals  renewals
	rosters   rosters
	watch     watch
	demand    demand
	capacity  capacity
	estimates estimates
	audit     audit
	tokenUse  tokenUse
	tickets   streamTickets
	denied    denials.Tally
	events    eventLog
	// started is set when all of the above is there: entries may be applied before.
	started atomic.Bool
	// beginning is what this coordinator does before it has data.
	beginning beginsWith
	// replayTo is how far the log was committed when that was first known here; 0: it is not known yet.
	replayTo atomic.Uint64
	// learnersWait says of each learner what keeps it from being a voter, while this replica leads.
	learnersWait sync.Map
	// leaderHint is "id=grpc_addr" of the leader, for the answers; epoch is as long as it stays the same.
	leaderHint atomic.Pointer[string]
	epoch      epoch

	// life ends, by die, when the server shuts down or goes out of service; background counts what must end before Run
	// returns.
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
	v1.RegisterJobServiceServer(server, s)
	v1.RegisterClusterServiceServer(server, s)
	v1.RegisterOperatorServiceServer(server, s)
	v1.RegisterAgentServiceServer(server, s)
	v1.RegisterTokenServiceServer(server, s)
	v1.RegisterEventServiceServer(server, s)
	healthpb.RegisterHealthServer(server, grpcHealth{server: s})
	v1.RegisterEvaluationServiceServer(server, s)
	v1.RegisterLauncherServiceServer(server, s)
	v1.RegisterDataServiceServer(server, s)
	v1.RegisterQuotaServiceServer(server, s)
	v1.RegisterAuditServiceServer(server, s)
	return server
}

const (
	// maxRequestBytes leaves room for a batch of 8 MiB of JSON.
	maxRequestBytes = 16 << 20
	maxStreams      = 100_000
)

// unary is what every unary call passes: admission, the way to the leader for writes, and what each answer carries.
func (s *server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	c := readCall(ctx)
	ctx = context.WithValue(ctx, callKey{}, c)
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, s.panicked(c, info.FullMethod, p)
		}
		err = toStatus(err)
		s.seal(ctx, c, err)
		s.metrics.answered(info.FullMethod, err, time.Since(start))
		s.complain(c, info.FullMethod, err)
		s.noteDenial(ctx, c, info.FullMethod, err)
	}()
	if err := s.admit(c, info.FullMethod); err != nil {
		return nil, err
	}
	if reply, ok := writes[info.FullMethod]; ok && !(c.stale && info.FullMethod == v1.TokenService_VerifyToken_FullMethodName) {
		return s.write(ctx, c, info.FullMethod, req, reply, handler)
	}
	return handler(ctx, req)
}

// stream is the same for streams. None of them is handed on: sessions belong to the leader, the others are reads.
func (s *server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	start := time.Now()
	c := readCall(ss.Context())
	ctx, cancel := context.WithCancel(context.WithValue(ss.Context(), callKey{}, c))
	defer cancel()
	// A stream has no end of its own: it ends with this server.
	defer context.AfterFunc(s.life, cancel)()
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(c, info.FullMethod, p)
		}
		if err != nil && s.life.Err() != nil && ss.Context().Err() == nil {
			err = notSent("this coordinator is shutting down: go on at another one")
		}
		err = toStatus(err)
		s.seal(ctx, c, err)
		s.metrics.answered(info.FullMethod, err, time.Since(start))
		s.complain(c, info.FullMethod, err)
		s.noteDenial(ctx, c, info.FullMethod, err)
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

func (s *server) panicked(c *call, method string, p any) error {
	s.log.Error("call panicked", "method", method, "request_id", c.requestID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return &failure{codes.Internal, "internal error", ""}
}

// complain logs what somebody should look into. What callers do wrong is theirs to see.
func (s *server) complain(c *call, method string, err error) {
	f, ok := err.(*failure)
	if ok && (f.code == codes.Internal || f.code == codes.Unknown) {
		s.log.Error("call failed", "method", method, "request_id", c.requestID, "code", f.code.String(), "error", f.message)
	}
}

// propose replicates a command and returns its result.
func propose[R any](ctx context.Context, s *server, command fsm.Command) (R, error) {
	var none R
	data, err := fsm.Encode(command)
	if err != nil {
		return none, err
	}
	applied, err := s.raft.Propose(ctx, data)
	if err != nil {
		return none, fmt.Errorf("proposing %T: %w", command, err)
	}
	if c := callOf(ctx); c != nil {
		c.index.Store(applied.Index)
	}
	result, ok := applied.Result.(R)
	if !ok {
		return none, fmt.Errorf("%T was answered with %T", command, applied.Result)
	}
	return result, nil
}

// leader is the id and gRPC address of the leader; the address is empty when it is not known (yet).
func (s *server) leader() (id, addr string) {
	if id, _ = s.raft.Leader(); id == "" {
		return "", ""
	}
	return id, s.grpcAddr(id)
}

// grpcAddr is where a coordinator is reached, "" when that is not known (yet).
func (s *server) grpcAddr(id string) string {
	if row, ok := s.machine.View().Coordinator(id); ok && row.GRPCAddr != "" {
		return row.GRPCAddr
	}
	for _, p := range s.config.Peers {
		if p.ID == id {
			return p.GRPCAddr
		}
	}
	return ""
}

// refreshHint brings what the answers say of the leader up to date.
func (s *server) refreshHint() {
	hint := ""
	if id, addr := s.leader(); addr != "" {
		hint = id + "=" + addr
	}
	s.leaderHint.Store(&hint)
	s.epoch.become(hint)
}

// self is this coordinator as the others should know it: as it says itself, else as the list of initial voters has it.
func (s *server) self() fsm.Coordinator {
	c := &s.config
	var listed Peer
	for _, p := range c.Peers {
		if p.ID == c.ID {
			listed = p
		}
	}
	return fsm.Coordinator{
		ID: c.ID, RaftAddr: cmp.Or(c.RaftAdvertise, listed.RaftAddr, c.RaftAddr),
		GRPCAddr: cmp.Or(c.GRPCAdvertise, listed.GRPCAddr, c.GRPCAddr), HTTPAddr: cmp.Or(c.HTTPAdvertise, listed.HTTPAddr, c.HTTPAddr),
		GossipAddr: cmp.Or(c.GossipAdvertise, c.GossipAddr),
	}
}

// loadTLS reads the certificates, when there are any.
func (s *server) loadTLS() error {
	if s.config.CertFile == "" {
		return nil
	}
	keys, err := pki.Open(pki.Files{Cert: s.config.CertFile, Key: s.config.KeyFile, CA: s.config.CAFile}, s.log)
	if err != nil {
		return err
	}
	s.serverTLS, s.clientTLS = keys.Server(), keys.Client(pki.RoleCoordinator)
	s.links.tls, s.agents.tls = s.clientTLS, keys.Client(pki.RoleAgent)
	s.tls = true
	s.config.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mind_certificate_not_after_seconds", Help: "When the certificate runs out, in Unix time.", ConstLabels: prometheus.Labels{"shown_to": "components"},
	}, func() float64 { return float64(keys.NotAfter().Unix()) }))
	return nil
}

// method is the last part of a full method name.
func method(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }
