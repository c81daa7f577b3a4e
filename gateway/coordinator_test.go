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
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// scripted is a coordinator whose answers the test defines, behind a real gRPC connection. The tests of package
// coordinator cover a real coordinator.
type scripted struct {
	v1.UnimplementedJobServiceServer
	v1.UnimplementedClusterServiceServer
	v1.UnimplementedTokenServiceServer
	v1.UnimplementedEvaluationServiceServer
	v1.UnimplementedLauncherServiceServer
	v1.UnimplementedDataServiceServer
	v1.UnimplementedQuotaServiceServer
	v1.UnimplementedAuditServiceServer
	v1.UnimplementedCalendarServiceServer
	v1.UnimplementedScheduleServiceServer

	lis    *bufconn.Listener
	server *grpc.Server

	mu    sync.Mutex
	calls []seen
	// unary answers a call by method name; nil: an empty reply.
	unary map[string]func(ctx context.Context, request any) (any, error)
	logs  func(*v1.StreamJobLogsRequest, grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error
	meter func(*v1.StreamJobMetricsRequest, grpc.ServerStreamingServer[v1.StreamJobMetricsResponse]) error
}

type seen struct {
	method  string
	request any
	md      metadata.MD
}

func newScripted(t testing.TB) *scripted {
	c := &scripted{lis: bufconn.Listen(1 << 20), unary: map[string]func(context.Context, any) (any, error){}}
	c.server = grpc.NewServer(append(client.ServerKeepalive(), grpc.UnaryInterceptor(c.intercept))...)
	v1.RegisterJobServiceServer(c.server, c)
	v1.RegisterClusterServiceServer(c.server, c)
	v1.RegisterTokenServiceServer(c.server, c)
	v1.RegisterEvaluationServiceServer(c.server, c)
	v1.RegisterLauncherServiceServer(c.server, c)
	v1.RegisterDataServiceServer(c.server, c)
	v1.RegisterQuotaServiceServer(c.server, c)
	v1.RegisterAuditServiceServer(c.server, c)
	v1.RegisterCalendarServiceServer(c.server, c)
	v1.RegisterScheduleServiceServer(c.server, c)
	go func() { _ = c.server.Serve(c.lis) }()
	t.Cleanup(c.server.Stop)
	return c
}

// replies are the answers of a coordinator without a script.
var replies = map[string]func() any{
	"SubmitJob":        func() any { return &v1.SubmitJobResponse{JobId: "job_1", Status: v1.JobStatus_PENDING} },
	"SubmitJobs":       func() any { return &v1.SubmitJobsResponse{} },
	"GetJob":           func() any { return &v1.GetJobResponse{Job: &v1.Job{JobId: "job_1"}} },
	"ListJobs":         func() any { return &v1.ListJobsResponse{} },
	"ExplainJob":       func() any { return &v1.ExplainJobResponse{} },
	"ListJobTasks":     func() any { return &v1.ListJobTasksResponse{} },
	"CancelJob":        func() any { return &v1.CancelJobResponse{Job: &v1.Job{}} },
	"PauseJob":         func() any { return &v1.PauseJobResponse{Job: &v1.Job{}} },
	"ResumeJob":        func() any { return &v1.ResumeJobResponse{Job: &v1.Job{}} },
	"RetryJob":         func() any { return &v1.RetryJobResponse{Job: &v1.Job{}} },
	"GetJobSeries":     func() any { return &v1.GetJobSeriesResponse{} },
	"GetJobMetrics":    func() any { return &v1.GetJobMetricsResponse{} },
	"ListCheckpoints":  func() any { return &v1.ListCheckpointsResponse{} },
	"GetCluster":       func() any { return &v1.GetClusterResponse{} },
	"ListNodes":        func() any { return &v1.ListNodesResponse{} },
	"GetNode":          func() any { return &v1.GetNodeResponse{Node: &v1.Node{}} },
	"GetNodeTraining":  func() any { return &v1.GetNodeTrainingResponse{Training: &v1.NodeTraining{}} },
	"DrainNode":        func() any { return &v1.DrainNodeResponse{Node: &v1.Node{}} },
	"ForgetNode":       func() any { return &v1.ForgetNodeResponse{} },
	"EnableNode":       func() any { return &v1.EnableNodeResponse{Node: &v1.Node{}} },
	"GetQueue":         func() any { return &v1.GetQueueResponse{} },
	"ListQueues":       func() any { return &v1.ListQueuesResponse{} },
	"GetPolicy":        func() any { return &v1.GetPolicyResponse{Policy: &v1.Policy{}} },
	"PutPolicy":        func() any { return &v1.PutPolicyResponse{Policy: &v1.Policy{}} },
	"PutQueue":         func() any { return &v1.PutQueueResponse{Queue: &v1.Queue{}} },
	"DeleteQueue":      func() any { return &v1.DeleteQueueResponse{} },
	"GetCheckpoint":    func() any { return &v1.GetCheckpointResponse{Checkpoint: &v1.Checkpoint{}} },
	"DeleteCheckpoint": func() any { return &v1.DeleteCheckpointResponse{} },
	"PinCheckpoint":    func() any { return &v1.PinCheckpointResponse{Checkpoint: &v1.Checkpoint{}} },
	"UnpinCheckpoint":  func() any { return &v1.UnpinCheckpointResponse{Checkpoint: &v1.Checkpoint{}} },
	"ListLaunchers":    func() any { return &v1.ListLaunchersResponse{Launchers: []*v1.Launcher{{Framework: "CUSTOM"}}} },
	"PutLauncher":      func() any { return &v1.PutLauncherResponse{Launcher: &v1.Launcher{}} },
	"DeleteLauncher":   func() any { return &v1.DeleteLauncherResponse{Launcher: &v1.Launcher{}} },
	"CreateToken":      func() any { return &v1.CreateTokenResponse{Token: &v1.Token{TokenId: "tok_1"}} },
	"ValidateData":     func() any { return &v1.ValidateDataResponse{} },
	"GetDataCache":     func() any { return &v1.GetDataCacheResponse{} },
	"ListTokens":       func() any { return &v1.ListTokensResponse{} },
	"RevokeToken":      func() any { return &v1.RevokeTokenResponse{} },
	"SubmitEvaluation": func() any {
		return &v1.SubmitEvaluationResponse{EvaluationId: "eval_1", Status: v1.JobStatus_PENDING}
	},
	"GetEvaluation":      func() any { return &v1.GetEvaluationResponse{Evaluation: &v1.Evaluation{}} },
	"ListEvaluations":    func() any { return &v1.ListEvaluationsResponse{} },
	"CompareEvaluations": func() any { return &v1.CompareEvaluationsResponse{} },
	"VerifyToken":        func() any { return &v1.VerifyTokenResponse{Token: &v1.Token{}} },
	"ListQuotas":         func() any { return &v1.ListQuotasResponse{} },
	"GetQuota":           func() any { return &v1.GetQuotaResponse{Quota: &v1.Quota{}} },
	"PutQuota":           func() any { return &v1.PutQuotaResponse{Quota: &v1.Quota{}} },
	"DeleteQuota":        func() any { return &v1.DeleteQuotaResponse{} },
	"RecordDenials":      func() any { return &v1.RecordDenialsResponse{} },
	"CreateStreamTicket": func() any { return &v1.CreateStreamTicketResponse{ExpiresAt: timestamppb.Now()} },
	"RedeemStreamTicket": func() any { return &v1.RedeemStreamTicketResponse{} },
	"ListMaintenance":    func() any { return &v1.ListMaintenanceResponse{} },
	"PutMaintenance":     func() any { return &v1.PutMaintenanceResponse{Window: &v1.Window{}} },
	"DeleteMaintenance":  func() any { return &v1.DeleteMaintenanceResponse{} },
	"ListReservations":   func() any { return &v1.ListReservationsResponse{} },
	"PutReservation":     func() any { return &v1.PutReservationResponse{Window: &v1.Window{}} },
	"DeleteReservation":  func() any { return &v1.DeleteReservationResponse{} },
	"ListSchedules":      func() any { return &v1.ListSchedulesResponse{} },
	"GetSchedule":        func() any { return &v1.GetScheduleResponse{Schedule: &v1.Schedule{}} },
	"PutSchedule":        func() any { return &v1.PutScheduleResponse{Schedule: &v1.Schedule{}} },
	"DeleteSchedule":     func() any { return &v1.DeleteScheduleResponse{} },
	"PauseSchedule":      func() any { return &v1.PauseScheduleResponse{Schedule: &v1.Schedule{}} },
	"ResumeSchedule":     func() any { return &v1.ResumeScheduleResponse{Schedule: &v1.Schedule{}} },
	"RunSchedule":        func() any { return &v1.RunScheduleResponse{JobId: "job_1"} },
	"ListAuditRecords":   func() any { return &v1.ListAuditRecordsResponse{} },
}

func (c *scripted) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	c.note(ctx, method, request)
	_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyIndex, "42"))
	c.mu.Lock()
	script := c.unary[method]
	c.mu.Unlock()
	if script != nil {
		return script(ctx, request)
	}
	return replies[method](), nil
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

func (c *scripted) StreamJobLogs(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
	c.note(s.Context(), "StreamJobLogs", r)
	return c.logs(r, s)
}

func (c *scripted) StreamJobMetrics(r *v1.StreamJobMetricsRequest, s grpc.ServerStreamingServer[v1.StreamJobMetricsResponse]) error {
	c.note(s.Context(), "StreamJobMetrics", r)
	return c.meter(r, s)
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
		require.NoError(g.t, json.Unmarshal([]byte(a.body), a), a.body)
	}
	return a
}

func (g *gate) data(a *answer) map[string]any {
	g.t.Helper()
	var data map[string]any
	require.NoError(g.t, json.Unmarshal(a.Data, &data), a.body)
	return data
}
