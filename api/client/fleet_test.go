package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

// fleet is a group of fake coordinators. Their answers are scripted; the gRPC connections to them are real, but in
// memory.
type fleet struct {
	mu      sync.Mutex
	members map[string]*member
}

type member struct {
	addr   string
	lis    *bufconn.Listener
	server *grpc.Server
	calls  atomic.Int64
	keys   sync.Map
	// serve answers any unary call.
	serve func(ctx context.Context, m *member) error
	// health answers health checks; nil: it serves.
	health func(ctx context.Context) (*healthpb.HealthCheckResponse, error)
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{members: map[string]*member{}}
	t.Cleanup(func() {
		for _, m := range f.members {
			m.server.Stop()
		}
	})
	return f
}

func (f *fleet) add(addr string, serve func(ctx context.Context, m *member) error) *member {
	m := &member{addr: addr, lis: bufconn.Listen(1 << 20), serve: serve}
	m.server = grpc.NewServer(append(ServerKeepalive(), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if strings.HasPrefix(info.FullMethod, "/grpc.health.v1.") {
				return next(ctx, req)
			}
			m.calls.Add(1)
			if md, ok := metadata.FromIncomingContext(ctx); ok {
				m.keys.Store(one(md, status.KeyIdempotency), true)
			}
			if err := m.serve(ctx, m); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}))...)
	v1.RegisterJobServiceServer(m.server, jobService{member: m})
	v1.RegisterClusterServiceServer(m.server, clusterService{})
	healthpb.RegisterHealthServer(m.server, healthService{member: m})
	go func() { _ = m.server.Serve(m.lis) }()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[addr] = m
	return m
}

// dial connects a client; addresses without a member refuse connections.
func (f *fleet) dial(t *testing.T, config Config) *Client {
	config.DialOptions = append(config.DialOptions, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		f.mu.Lock()
		m := f.members[addr]
		f.mu.Unlock()
		if m == nil {
			return nil, errors.New("connection refused")
		}
		return m.lis.DialContext(ctx)
	}))
	c, err := Dial(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

type jobService struct {
	v1.UnimplementedJobServiceServer
	member *member
}

func (s jobService) SubmitJob(context.Context, *v1.SubmitJobRequest) (*v1.SubmitJobResponse, error) {
	return &v1.SubmitJobResponse{JobId: "job_" + s.member.addr}, nil
}

func (s jobService) GetJob(_ context.Context, r *v1.GetJobRequest) (*v1.GetJobResponse, error) {
	return &v1.GetJobResponse{Job: &v1.Job{JobId: r.JobId, Name: s.member.addr}}, nil
}

func (s jobService) StreamJobLogs(_ *v1.StreamJobLogsRequest, stream grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
	s.member.calls.Add(1)
	if err := s.member.serve(stream.Context(), s.member); err != nil {
		return err
	}
	return stream.Send(&v1.StreamJobLogsResponse{Entries: []*v1.LogEntry{{Message: s.member.addr}}})
}

type healthService struct {
	healthpb.UnimplementedHealthServer
	member *member
}

func (s healthService) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if s.member.health != nil {
		return s.member.health(ctx)
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

type clusterService struct {
	v1.UnimplementedClusterServiceServer
}

// The functions below are behaviours of a member.

func answers(ctx context.Context, index string, leader string) error {
	return grpc.SetTrailer(ctx, metadata.Pairs(status.KeyIndex, index, status.KeyLeader, leader))
}

func leads(ctx context.Context, m *member) error { return answers(ctx, "7", "c1="+m.addr) }

func unavailable(ctx context.Context, outcome, leader string) error {
	md := metadata.MD{}
	if outcome != "" {
		md.Set(status.KeyOutcome, outcome)
	}
	if leader != "" {
		md.Set(status.KeyLeader, leader)
	}
	_ = grpc.SetTrailer(ctx, md)
	return grpcstatus.Error(codes.Unavailable, "scripted")
}

func notSent(ctx context.Context, _ *member) error { return unavailable(ctx, status.NotSent, "") }

func unknown(ctx context.Context, _ *member) error { return unavailable(ctx, status.Unknown, "") }

func wedged(ctx context.Context, _ *member) error {
	<-ctx.Done()
	return ctx.Err()
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
