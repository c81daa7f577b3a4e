package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/flows"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// scripted is a coordinator whose answers the test defines, behind a real gRPC connection. The tests of package
// coordinator cover a real coordinator.
type scripted struct {
	lis    *bufconn.Listener
	server *grpc.Server

	mu    sync.Mutex
	calls []seen
	// unary answers a call by method name; nil: reply does.
	unary  map[string]func(ctx context.Context, request any) (any, error)
	tunnel func(v1.JobService_StreamJobTunnelServer) error
	logs   func(*v1.StreamJobLogsRequest, grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error
	watch  func(*v1.WatchEventsRequest, grpc.ServerStreamingServer[v1.WatchEventsResponse]) error
	meter  func(*v1.StreamJobMetricsRequest, grpc.ServerStreamingServer[v1.StreamJobMetricsResponse]) error
}

type seen struct {
	method  string
	request any
	md      metadata.MD
}

func newScripted(t testing.TB) *scripted {
	c := &scripted{lis: bufconn.Listen(1 << 20), unary: map[string]func(context.Context, any) (any, error){}}
	c.server = grpc.NewServer(append(client.ServerKeepalive(), grpc.UnknownServiceHandler(c.serve))...)
	go func() { _ = c.server.Serve(c.lis) }()
	t.Cleanup(c.server.Stop)
	return c
}

// replies are the answers of a coordinator without a script that say something.
var replies = map[string]func() proto.Message{
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

// reply returns the answer of a coordinator without a script: that of replies, or one whose objects are there and empty.
func reply(m *methods.Method) proto.Message {
	if say := replies[shortName(m)]; say != nil {
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

func shortName(m *methods.Method) string { return m.Name[strings.LastIndexByte(m.Name, '/')+1:] }

// serve answers every method that the protos declare, except streams without a script.
func (c *scripted) serve(_ any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	switch name {
	case v1.JobService_StreamJobLogs_FullMethodName:
		return serveStream(c, stream, c.logs)
	case v1.JobService_StreamJobMetrics_FullMethodName:
		return serveStream(c, stream, c.meter)
	case v1.JobService_StreamJobTunnel_FullMethodName:
		if c.tunnel != nil {
			return c.tunnel(&grpc.GenericServerStream[v1.StreamJobTunnelRequest, v1.StreamJobTunnelResponse]{ServerStream: stream})
		}
	case v1.EventService_WatchEvents_FullMethodName:
		if c.watch != nil {
			return serveStream(c, stream, c.watch)
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
	ctx, method := stream.Context(), shortName(m)
	c.note(ctx, method, request)
	_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyIndex, "42"))
	c.mu.Lock()
	script := c.unary[method]
	c.mu.Unlock()
	if script == nil {
		return stream.SendMsg(reply(m))
	}
	answer, err := script(ctx, request)
	if err != nil {
		return err
	}
	return stream.SendMsg(answer)
}

func serveStream[Q, A any](c *scripted, stream grpc.ServerStream, script func(*Q, grpc.ServerStreamingServer[A]) error) error {
	request := new(Q)
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	name, _ := grpc.MethodFromServerStream(stream)
	c.note(stream.Context(), shortName(methods.Of(name)), request)
	return script(request, &grpc.GenericServerStream[Q, A]{ServerStream: stream})
}

// note records a call, except the calls by which a running gateway checks every second whether it is ready.
func (c *scripted) note(ctx context.Context, method string, request any) {
	md, _ := metadata.FromIncomingContext(ctx)
	if (method == "ListQueues" || method == "GetCluster") && len(md[status.KeyRequestID]) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, seen{method, request, md})
}

func (c *scripted) on(method string, script func(ctx context.Context, request any) (any, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unary[method] = script
}

func (c *scripted) seen() []seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]seen(nil), c.calls...)
}

// dialerTo connects addresses to coordinators, and refuses other addresses.
func dialerTo(coordinators map[string]*scripted) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		if c := coordinators[addr]; c != nil {
			return c.lis.DialContext(ctx)
		}
		return nil, errors.New("connection refused")
	})
}

const prefix, modules = rest.Prefix, rest.Modules

// dial returns a client of coordinators.
func dial(t testing.TB, coordinators ...*scripted) *client.Client {
	config := testConfig(coordinators...)
	c, err := client.Dial(client.Config{Addrs: config.Coordinators, Secret: config.APISecret, DialOptions: config.DialOptions})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Tokens of the tests.
const (
	tokenAll    = "token-all"
	tokenViewer = "token-view"
	tokenNone   = "token-none"
)

func testConfig(coordinators ...*scripted) Config {
	config := Config{
		HTTPAddr: "127.0.0.1:0", APISecret: "secret",
		Tokens: []StaticToken{
			{Token: tokenAll, Tenant: "acme", User: "ann", Permissions: auth.AllPermissions},
			{Token: tokenViewer, Tenant: "acme", User: "vic", Permissions: []string{auth.PermissionView}},
			{Token: tokenNone, Tenant: "acme", User: "nat"},
		},
		Logger:   slog.New(slog.NewTextHandler(io.Discard, nil)),
		Registry: prometheus.NewRegistry(),
	}
	byAddr := map[string]*scripted{}
	for i, c := range coordinators {
		addr := string(rune('a'+i)) + ":1"
		byAddr[addr] = c
		config.Coordinators = append(config.Coordinators, addr)
	}
	if len(coordinators) == 0 {
		config.Coordinators = []string{"nobody:1"}
	}
	config.DialOptions = []grpc.DialOption{dialerTo(byAddr)}
	return config
}

// gate is a gateway's handler without a socket.
type gate struct {
	t       testing.TB
	server  *server
	handler http.Handler
}

func newGate(t testing.TB, config Config) *gate {
	s, err := newServer(config.withDefaults())
	require.NoError(t, err)
	t.Cleanup(s.close)
	return &gate{t: t, server: s, handler: s.router()}
}

// answer is a response that was read completely.
type answer struct {
	code   int
	header http.Header
	body   string
	Status string          `json:"status"`
	Data   json.RawMessage `json:"data"`
	Error  struct {
		Code       string       `json:"code"`
		Message    string       `json:"message"`
		RetryAfter int          `json:"retry_after"`
		Details    []wire.Fault `json:"details"`
	} `json:"error"`
	Meta struct {
		RequestID string `json:"request_id"`
	} `json:"meta"`
}

// do sends a request with all permissions; headers come in pairs and may
// replace the token.
func (g *gate) do(method, path, body string, headers ...string) *answer {
	g.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+tokenAll)
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	a := &answer{code: w.Code, header: w.Header(), body: w.Body.String()}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		if flows.Has(r.URL.Path) {
			a.readBare(g.t)
		} else {
			require.NoError(g.t, json.Unmarshal([]byte(a.body), a), a.body)
		}
	}
	return a
}

// readBare reads an answer without an envelope, so that tests of all routes find in it what they look for.
func (a *answer) readBare(t testing.TB) {
	a.Meta.RequestID = a.header.Get(rest.HeaderRequestID)
	if a.code < 400 {
		a.Status, a.Data = "ok", json.RawMessage(a.body)
		require.True(t, json.Valid(a.Data), a.body)
		return
	}
	var fault struct {
		Detail struct {
			Error, Message string
			Details        []wire.Fault
			RetryAfter     int `json:"retry_after"`
		}
	}
	read := json.NewDecoder(strings.NewReader(a.body))
	require.NoError(t, read.Decode(&fault), a.body)
	require.Equal(t, strings.ToLower(fault.Detail.Error), fault.Detail.Error)
	a.Status, a.Error.Code, a.Error.Message = "error", strings.ToUpper(fault.Detail.Error), fault.Detail.Message
	a.Error.Details, a.Error.RetryAfter = fault.Detail.Details, fault.Detail.RetryAfter
}

func (g *gate) data(a *answer) map[string]any {
	g.t.Helper()
	var data map[string]any
	require.NoError(g.t, json.Unmarshal(a.Data, &data), a.body)
	return data
}
