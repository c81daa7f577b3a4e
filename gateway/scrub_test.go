package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// inside are internal errors of a coordinator, which callers must not see. Answers do not contain their words for other
// reasons.
var inside = []string{
	`pq: duplicate key value violates unique constraint "jobs_pkey" SELECT digest FROM tokens WHERE tenant='globex' -- `,
	"open /var/lib/mind/raft/snapshots/7-4711.tmp: permission denied", `C:\mind\data\raft.db`,
	"panic: runtime error: invalid memory address or nil pointer dereference\ngoroutine 4711 [running]:\nmain.(*server).SubmitJob(0xc000123456)\n\t/build/coordinator/jobs.go:42 +0x1d",
	"x-api-secret=hunter2 sgk_c2VjcmV0c2VjcmV0 AKIAIOSFODNN7EXAMPLE -----BEGIN EC PRIVATE KEY-----",
	"dial tcp 10.1.2.3:7411: connect: connection reset by peer", "<script>alert(1)</script>", "job_globex of tenant globex",
}

// telltales are parts of these errors, each of which would be a leak.
var telltales = []string{
	"pq:", "pkey", "SELECT", "digest FROM", "globex", "/var/lib", "snapshots", ".tmp", `C:\`, "raft.db", "panic: ", "goroutine 4711", "0xc000", "jobs.go", "/build/",
	"hunter2", "x-api-secret", "c2Vjcm", "AKIA", "PRIVATE KEY", "10.1.2.3", ":7411", "reset by peer", "<script", "\\u003cscript", "nil pointer",
}

// faulty is a coordinator whose calls all fail: at once, or after a first message of a stream.
type faulty struct {
	code codes.Code

	mu    sync.Mutex
	first map[string]proto.Message
}

func (f *faulty) serve(_ any, stream grpc.ServerStream) error {
	_ = stream.RecvMsg(&emptypb.Empty{})
	method, _ := grpc.MethodFromServerStream(stream)
	f.mu.Lock()
	first := f.first[method]
	delete(f.first, method)
	f.mu.Unlock()
	if first != nil {
		if err := stream.SendMsg(first); err != nil {
			return err
		}
	}
	failed, err := grpcstatus.New(f.code, strings.Join(inside, "; ")).WithDetails(&v1.Job{JobId: "job_globex", ErrorMessage: inside[3]})
	if err != nil {
		return err
	}
	return failed.Err()
}

func (f *faulty) gate(t *testing.T) (*gatewaytest.Gate, *bytes.Buffer) {
	lis := bufconn.Listen(1 << 20)
	server := grpc.NewServer(append(client.ServerKeepalive(), grpc.UnknownServiceHandler(f.serve))...)
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(server.Stop)
	config := gatewaytest.Config()
	config.Coordinators = []string{"a:1"}
	config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "operator", Tenant: "acme", User: "olga", Permissions: append([]string{auth.PermissionOperator}, auth.AllPermissions...)})
	config.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) })}
	log := &bytes.Buffer{}
	config.Logger = slog.New(slog.NewJSONHandler(log, nil))
	return gatewaytest.NewGate(t, config), log
}

func requireClean(t *testing.T, a *gatewaytest.Answer) {
	t.Helper()
	text := a.Body + fmt.Sprint(a.Header)
	for _, piece := range telltales {
		require.NotContains(t, text, piece)
	}
}

// requireLogged requires that the error can be found in the log by the request id.
func requireLogged(t *testing.T, log *bytes.Buffer, requestID string) {
	t.Helper()
	require.NotEmpty(t, requestID)
	for _, text := range strings.Split(log.String(), "\n") {
		var line struct {
			Event     string `json:"event"`
			RequestID string `json:"request_id"`
			RawDetail string `json:"raw_detail"`
		}
		if json.Unmarshal([]byte(text), &line) == nil && line.Event == "scaimind_coordinator_error" && line.RequestID == requestID {
			for _, detail := range inside {
				require.Contains(t, line.RawDetail, detail)
			}
			return
		}
	}
	require.Fail(t, "the log does not have it", "request %s: %s", requestID, log)
}

// callNobody are the routes that call no coordinator on the caller's behalf, or that do so only for a browser (sessions_test.go).
var callNobody = map[string]bool{
	"POST /v1/session": true, "GET /v1/session": true, "DELETE /v1/session": true, "GET /v1/session/methods": true, "GET /v1/session/login": true, "GET /v1/session/callback": true,
	"GET /v1/me": true, "GET /v1/auth/me": true, "GET /health": true, "GET /health/ready": true, "GET /metrics": true, "GET /openapi.json": true, "POST /v1/modules/scaicore/cores/parse-bundle": true,
	"GET /uploads": true, "POST /uploads": true, "POST /uploads/packs": true,
	"GET /v1/flows/kinds": true, "POST /v1/flows/validate": true, "POST /v1/flows/compile": true, "POST /v1/flows/expressions": true,
	"GET /api/v1/flows/kinds": true, "POST /api/v1/flows/validate": true, "POST /api/v1/flows/compile": true, "POST /api/v1/flows/expressions": true,
}

func TestErrors_nothingFromInsideGetsOut(t *testing.T) {
	for _, code := range []codes.Code{codes.Internal, codes.Unknown, codes.DataLoss} {
		want := status.OfCode(code)
		require.Equal(t, status.Sanitise, want.Policy)
		for _, r := range allRoutes() {
			t.Run(code.String()+" "+r.Method+" "+r.Path, func(t *testing.T) {
				// A stream with this error is retried for a while.
				synctest.Test(t, func(t *testing.T) {
					g, log := (&faulty{code: code}).gate(t)
					name := r.Method + " " + strings.TrimPrefix(r.Path, rest.Prefix)
					path, body := sample(r)
					a := g.Do(r.Method, path, body, "X-Request-Id", "r-4712", "Authorization", "Bearer operator")
					requireClean(t, a)
					if callNobody[name] {
						return
					}
					require.Equal(t, want.HTTP, a.Code, a.Body)
					require.Equal(t, want.Code, a.Error.Code)
					require.Equal(t, want.Message, a.Error.Message)
					require.Empty(t, a.Error.Details)
					require.Equal(t, "r-4712", a.Meta.RequestID)
					requireLogged(t, log, "r-4712")
				})
			})
		}
	}
}

func TestErrors_nothingFromInsideGetsOutOfAStreamThatHasBegun(t *testing.T) {
	begun := map[string]struct {
		method string
		first  proto.Message
	}{
		"/jobs/{id}/logs":           {v1.JobService_StreamJobLogs_FullMethodName, &v1.StreamJobLogsResponse{Entries: []*v1.LogEntry{gatewaytest.Entry(1)}}},
		"/jobs/{id}/metrics/stream": {v1.JobService_StreamJobMetrics_FullMethodName, &v1.StreamJobMetricsResponse{Entries: []*v1.MetricsEntry{{Cursor: "1", Json: "{}"}}}},
		"/events":                   {v1.EventService_WatchEvents_FullMethodName, &v1.WatchEventsResponse{Cursor: "1.0", Events: []*v1.Event{{Index: 1, Cursor: "1.0", Topic: "job"}}}},
	}
	for _, r := range allRoutes() {
		if !r.Stream || r.Socket {
			continue // TestTunnel_errors is about sockets.
		}
		path := strings.TrimPrefix(r.Path, rest.Prefix)
		t.Run(path, func(t *testing.T) {
			one, ok := begun[path]
			require.True(t, ok, "the stream has no test")
			synctest.Test(t, func(t *testing.T) {
				g, log := (&faulty{code: codes.Internal, first: map[string]proto.Message{one.method: one.first}}).gate(t)
				a := g.Do(r.Method, strings.ReplaceAll(r.Path, "{id}", "job_1"), "", "X-Request-Id", "r-1")
				require.Equal(t, 200, a.Code)
				require.Contains(t, a.Body, "event: error\ndata: {\"error\":\"stream ended\",\"code\":\"INTERNAL\"")
				requireClean(t, a)
				requireLogged(t, log, "r-1")
			})
		})
	}
}

func TestErrors_nothingFromInsideGetsOutOfABatch(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	c.On("SubmitJobs", func(context.Context, any) (any, error) {
		return &v1.SubmitJobsResponse{Results: []*v1.SubmitJobResult{
			{Job: &v1.SubmitJobResponse{JobId: "job_1"}},
			{Code: int32(codes.Internal), Message: strings.Join(inside, "; ")},
		}}, nil
	})
	log := &bytes.Buffer{}
	config := gatewaytest.Config(c)
	config.Logger = slog.New(slog.NewJSONHandler(log, nil))
	a := gatewaytest.NewGate(t, config).Do("POST", rest.Prefix+"/jobs/batch", goodBodies["POST /jobs/batch"], "X-Request-Id", "r-1")
	require.Contains(t, a.Body, `"refused":1`)
	requireClean(t, a)
	requireLogged(t, log, "r-1")
}

// The coordinators look up the token before the gateway examines the request further.
func TestErrors_nothingFromInsideGetsOutWhenATokenCannotBeChecked(t *testing.T) {
	g, log := (&faulty{code: codes.Internal}).gate(t)
	a := g.Do("GET", rest.Prefix+"/jobs", "", "Authorization", "Bearer "+auth.MintToken(), "X-Request-Id", "r-1")
	require.Equal(t, 503, a.Code)
	requireClean(t, a)
	requireLogged(t, log, "r-1")
}
