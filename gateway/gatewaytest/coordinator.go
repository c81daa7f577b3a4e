// Package gatewaytest runs gateways for tests, before coordinators whose answers the tests define.
//
// A Gate is a gateway's handler without a socket; Run runs a whole gateway whose connections are in memory, so that streams run
// in virtual time. Both end with the test.
package gatewaytest

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

// Coordinator has the answers that a test defines, behind a real gRPC connection. The tests of package coordinator cover a real
// coordinator.
type Coordinator struct {
	lis    *bufconn.Listener
	server *grpc.Server

	mu    sync.Mutex
	calls []Call
	// unary answers a call by method name; nil: reply does.
	unary   map[string]func(ctx context.Context, request any) (any, error)
	Tunnel  func(v1.JobService_StreamJobTunnelServer) error
	Logs    func(*v1.StreamJobLogsRequest, grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error
	Watch   func(*v1.WatchEventsRequest, grpc.ServerStreamingServer[v1.WatchEventsResponse]) error
	Metrics func(*v1.StreamJobMetricsRequest, grpc.ServerStreamingServer[v1.StreamJobMetricsResponse]) error
}

// Call is a call that a coordinator got: its method, without the service, its request and its metadata.
type Call struct {
	Method  string
	Request any
	MD      metadata.MD
}

// NewCoordinator starts a coordinator, which ends with the test.
func NewCoordinator(t testing.TB) *Coordinator {
	c := &Coordinator{lis: bufconn.Listen(1 << 20), unary: map[string]func(context.Context, any) (any, error){}}
	c.server = grpc.NewServer(append(client.ServerKeepalive(), grpc.UnknownServiceHandler(c.serve))...)
	go func() { _ = c.server.Serve(c.lis) }()
	t.Cleanup(c.server.Stop)
	return c
}

// Replies are the answers of a coordinator without a script that say something.
var Replies = map[string]func() proto.Message{
	"SubmitJob": func() proto.Message { return &v1.SubmitJobResponse{JobId: "job_1", Status: v1.JobStatus_PENDING} },
	"GetJob":    func() proto.Message { return &v1.GetJobResponse{Job: &v1.Job{JobId: "job_1"}} },
	"ListLaunchers": func() proto.Message {
		return &v1.ListLaunchersResponse{Launchers: []*v1.Launcher{{Framework: "CUSTOM"}}}
	},
	"CreateToken": func() proto.Message { return &v1.CreateTokenResponse{Token: &v1.Token{TokenId: "tok_1"}} },
	"SubmitEvaluation": func() proto.Message {
		return &v1.SubmitEvaluationResponse{EvaluationId: "eval_1", Status: v1.JobStatus_PENDING}
	},
	"CreateStreamTicket": func() proto.Message { return &v1.CreateStreamTicketResponse{ExpiresAt: timestamppb.Now()} },
	"RunSchedule":        func() proto.Message { return &v1.RunScheduleResponse{JobId: "job_1"} },
}

// Reply returns the answer of a coordinator without a script: that of Replies, or one whose objects are there and empty.
func Reply(m *methods.Method) proto.Message {
	if say := Replies[ShortName(m)]; say != nil {
		return say()
	}
	answer := m.NewReply()
	r := answer.ProtoReflect()
	for i := range r.Descriptor().Fields().Len() {
		f := r.Descriptor().Fields().Get(i)
		if f.Message() != nil && !f.IsMap() && !f.IsList() && f.Message().FullName().Parent() == r.Descriptor().FullName().Parent() {
			r.Mutable(f)
		}
	}
	return answer
}

// ShortName returns the name of a method without its service.
func ShortName(m *methods.Method) string { return m.Name[strings.LastIndexByte(m.Name, '/')+1:] }

// serve answers every method that the protos declare, except streams without a script.
func (c *Coordinator) serve(_ any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	switch name {
	case v1.JobService_StreamJobLogs_FullMethodName:
		return serveStream(c, stream, c.Logs)
	case v1.JobService_StreamJobMetrics_FullMethodName:
		return serveStream(c, stream, c.Metrics)
	case v1.JobService_StreamJobTunnel_FullMethodName:
		if c.Tunnel != nil {
			return c.Tunnel(&grpc.GenericServerStream[v1.StreamJobTunnelRequest, v1.StreamJobTunnelResponse]{ServerStream: stream})
		}
	case v1.EventService_WatchEvents_FullMethodName:
		if c.Watch != nil {
			return serveStream(c, stream, c.Watch)
		}
	}
	m := methods.Of(name)
	request := m.NewRequest()
	if request == nil || m.Streams {
		return grpcstatus.Error(codes.Unimplemented, name)
	}
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	ctx, method := stream.Context(), ShortName(m)
	c.note(ctx, method, request)
	_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyIndex, "42"))
	c.mu.Lock()
	script := c.unary[method]
	c.mu.Unlock()
	if script == nil {
		return stream.SendMsg(Reply(m))
	}
	answer, err := script(ctx, request)
	if err != nil {
		return err
	}
	return stream.SendMsg(answer)
}

func serveStream[Q, A any](c *Coordinator, stream grpc.ServerStream, script func(*Q, grpc.ServerStreamingServer[A]) error) error {
	request := new(Q)
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	name, _ := grpc.MethodFromServerStream(stream)
	c.note(stream.Context(), ShortName(methods.Of(name)), request)
	return script(request, &grpc.GenericServerStream[Q, A]{ServerStream: stream})
}

// Stop ends the coordinator at once.
func (c *Coordinator) Stop() { c.server.Stop() }

// note records a call, except the calls by which a running gateway checks every second whether it is ready.
func (c *Coordinator) note(ctx context.Context, method string, request any) {
	md, _ := metadata.FromIncomingContext(ctx)
	if (method == "ListQueues" || method == "GetCluster") && len(md[status.KeyRequestID]) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, Call{method, request, md})
}

// On sets the answer to the calls of a method.
func (c *Coordinator) On(method string, script func(ctx context.Context, request any) (any, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unary[method] = script
}

// Calls returns the calls so far.
func (c *Coordinator) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Call(nil), c.calls...)
}

// dialerTo connects addresses to coordinators, and refuses other addresses.
func dialerTo(coordinators map[string]*Coordinator) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		if c := coordinators[addr]; c != nil {
			return c.lis.DialContext(ctx)
		}
		return nil, errors.New("connection refused")
	})
}

// Dial returns a client of coordinators.
func Dial(t testing.TB, coordinators ...*Coordinator) *client.Client {
	config := Config(coordinators...)
	c, err := client.Dial(client.Config{Addrs: config.Coordinators, Secret: config.APISecret, DialOptions: config.DialOptions})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TakesAll accepts all jobs of a batch, except one named "refused".
func TakesAll(_ context.Context, r any) (any, error) {
	reply := &v1.SubmitJobsResponse{}
	for _, job := range r.(*v1.SubmitJobsRequest).Jobs {
		result := &v1.SubmitJobResult{Job: &v1.SubmitJobResponse{JobId: "job_" + job.Name, Status: v1.JobStatus_PENDING, EstimatedWaitSeconds: proto.Float64(1.5)}}
		switch job.Name {
		case "refused":
			result = &v1.SubmitJobResult{Code: int32(codes.InvalidArgument), Message: "cwd is required"}
		case "broken":
			result = &v1.SubmitJobResult{Code: int32(codes.Internal), Message: "secret detail"}
		}
		reply.Results = append(reply.Results, result)
	}
	return reply, nil
}
