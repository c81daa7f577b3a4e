package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// leaderless makes a coordinator that answers only stale reads while alone is true, like the last one of three.
func leaderless(c *gatewaytest.Coordinator, alone *atomic.Bool) {
	c.On("ListQueues", func(ctx context.Context, _ any) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		if v := md[status.KeyConsistency]; alone.Load() && (len(v) == 0 || v[0] != status.Stale) {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyOutcome, status.NotSent))
			return nil, grpcstatus.Error(codes.Unavailable, "no leader is known")
		}
		return &v1.ListQueuesResponse{}, nil
	})
	c.On("GetCluster", func(context.Context, any) (any, error) {
		return &v1.GetClusterResponse{Coordinators: []*v1.CoordinatorStatus{
			{Id: "c1", Voter: true, Liveness: "dead"}, {Id: "c2", Voter: true, Liveness: "dead"}, {Id: "c3", Voter: true, Liveness: "alive"},
		}}, nil
	})
}

type readyAnswer struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

func ready(g *gatewaytest.Running, query string) (int, readyAnswer) {
	g.T.Helper()
	resp, err := g.Request(context.Background(), http.MethodGet, "/health/ready"+query, "")
	require.NoError(g.T, err)
	defer resp.Body.Close()
	var a readyAnswer
	require.NoError(g.T, json.NewDecoder(resp.Body).Decode(&a))
	return resp.StatusCode, a
}

var allOK = map[string]string{"gateway": "ok", "coordinators": "ok", "leader": "ok"}

// A gateway is ready while requests are answered. That includes the time in which they wait for a new leader, but no
// more.
func TestReady_withoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		var alone atomic.Bool
		leaderless(c, &alone)
		g := gatewaytest.Run(t, gatewaytest.Config(c))
		time.Sleep(2 * time.Second)
		code, a := ready(g, "")
		require.Equal(t, 200, code)
		require.Equal(t, readyAnswer{"ready", allOK}, a)

		// This is a failover.
		alone.Store(true)
		for range 6 {
			time.Sleep(time.Second)
			code, a = ready(g, "")
			require.Equal(t, 200, code, a)
			require.Equal(t, "ready", a.Status)
		}
		require.Contains(t, a.Checks["leader"], "requests wait up to 10s for one", "it says that requests wait")
		alone.Store(false)
		time.Sleep(5 * time.Second)
		code, a = ready(g, "")
		require.Equal(t, 200, code)
		require.Equal(t, allOK, a.Checks)

		// This is an outage. No probe asks meanwhile; the first one gets the right answer.
		alone.Store(true)
		time.Sleep(20 * time.Second)
		code, a = ready(g, "")
		require.Equal(t, 503, code)
		require.Equal(t, "not_ready", a.Status)
		require.Equal(t, "ok", a.Checks["gateway"])
		require.Equal(t, "ok", a.Checks["coordinators"])
		require.Equal(t, "no quorum: 1 of 3 voters is alive, 2 are needed; writes and linearizable reads fail, stale reads work", a.Checks["leader"])
		code, a = ready(g, "?consistency=stale")
		require.Equal(t, 200, code, "stale reads work through this gateway")
		require.Equal(t, "ready", a.Status)

		alone.Store(false)
		time.Sleep(5 * time.Second)
		code, a = ready(g, "")
		require.Equal(t, 200, code, "it comes back by itself")
		require.Equal(t, allOK, a.Checks)
		code, _ = ready(g, "?consistency=perhaps")
		require.Equal(t, 422, code)
	})
}

// A gateway that has never reached a leader is not ready, from the start on.
func TestReady_beforeThereWasALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		var alone atomic.Bool
		alone.Store(true)
		leaderless(c, &alone)
		g := gatewaytest.Run(t, gatewaytest.Config(c))
		code, a := ready(g, "")
		require.Equal(t, 503, code, a)
		alone.Store(false)
		time.Sleep(5 * time.Second)
		code, _ = ready(g, "")
		require.Equal(t, 200, code)
	})
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		server, g := newInner(t, gatewaytest.Config(c))
		a := g.Do("GET", "/health", "", "Authorization", "")
		require.Equal(t, 200, a.Code)
		require.JSONEq(t, `{"status":"ok"}`, a.Body)
		a = g.Do("GET", "/health/ready", "", "Authorization", "")
		require.Equal(t, 200, a.Code)
		require.JSONEq(t, `{"status":"ready","checks":{"gateway":"ok","coordinators":"ok","leader":"ok"}}`, a.Body)
		server.Drain()
		a = g.Do("GET", "/health/ready", "", "Authorization", "")
		require.Equal(t, 503, a.Code)
		require.Equal(t, 200, g.Do("GET", "/health", "").Code)
	})
}

func TestHealth_noCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.On("ListQueues", func(context.Context, any) (any, error) {
			return nil, grpcstatus.Error(codes.Unauthenticated, "wrong secret")
		})
		a := gatewaytest.NewGate(t, gatewaytest.Config(c)).Do("GET", "/health/ready", "")
		require.Equal(t, 503, a.Code)
		require.JSONEq(t, `{"status":"not_ready","checks":{"gateway":"ok","coordinators":"UNAUTHENTICATED","leader":"unknown"}}`, a.Body)
	})
}

func TestMetrics(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	g.Do("GET", rest.Prefix+"/jobs/job_1", "")
	g.Do("GET", rest.Prefix+"/jobs/job_2", "")
	g.Do("GET", rest.Prefix+"/nope", "")
	body := g.Do("GET", "/metrics", "", "Authorization", "").Body
	require.Contains(t, body, `mind_gateway_requests_total{code="200",route="GET /jobs/{id}"} 2`)
	require.Contains(t, body, `mind_gateway_requests_total{code="404",route="unknown"} 1`)
	require.Contains(t, body, `mind_gateway_request_seconds_count{route="GET /jobs/{id}"} 2`)
	require.Contains(t, body, "mind_sse_streams 0")
	require.NotContains(t, body, "job_1", "no ids in labels")
}
