package gateway

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
)

// leaderless makes a coordinator that answers only stale reads while alone is true, like the last one of three.
func leaderless(c *scripted, alone *atomic.Bool) {
	c.on("ListQueues", func(ctx context.Context, _ any) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		if v := md[status.KeyConsistency]; alone.Load() && (len(v) == 0 || v[0] != status.Stale) {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyOutcome, status.NotSent))
			return nil, grpcstatus.Error(codes.Unavailable, "no leader is known")
		}
		return &v1.ListQueuesResponse{}, nil
	})
	c.on("GetCluster", func(context.Context, any) (any, error) {
		return &v1.GetClusterResponse{Coordinators: []*v1.CoordinatorStatus{
			{Id: "c1", Voter: true, Liveness: "dead"}, {Id: "c2", Voter: true, Liveness: "dead"}, {Id: "c3", Voter: true, Liveness: "alive"},
		}}, nil
	})
}

type readyAnswer struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

func (g *running) ready(query string) (int, readyAnswer) {
	g.t.Helper()
	resp, err := g.request(context.Background(), http.MethodGet, "/health/ready"+query, "")
	require.NoError(g.t, err)
	defer resp.Body.Close()
	var a readyAnswer
	require.NoError(g.t, json.NewDecoder(resp.Body).Decode(&a))
	return resp.StatusCode, a
}

var allOK = map[string]string{"gateway": "ok", "coordinators": "ok", "leader": "ok"}

// A gateway is ready while requests are answered. That includes the time in which they wait for a new leader, but no
// more.
func TestReady_withoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		var alone atomic.Bool
		leaderless(c, &alone)
		g := runGateway(t, testConfig(c))
		time.Sleep(2 * time.Second)
		code, a := g.ready("")
		require.Equal(t, 200, code)
		require.Equal(t, readyAnswer{"ready", allOK}, a)

		// This is a failover.
		alone.Store(true)
		for range 6 {
			time.Sleep(time.Second)
			code, a = g.ready("")
			require.Equal(t, 200, code, a)
			require.Equal(t, "ready", a.Status)
		}
		require.Contains(t, a.Checks["leader"], "requests wait up to 10s for one", "it says that requests wait")
		alone.Store(false)
		time.Sleep(5 * time.Second)
		code, a = g.ready("")
		require.Equal(t, 200, code)
		require.Equal(t, allOK, a.Checks)

		// This is an outage. No probe asks meanwhile; the first one gets the right answer.
		alone.Store(true)
		time.Sleep(20 * time.Second)
		code, a = g.ready("")
		require.Equal(t, 503, code)
		require.Equal(t, "not_ready", a.Status)
		require.Equal(t, "ok", a.Checks["gateway"])
		require.Equal(t, "ok", a.Checks["coordinators"])
		require.Equal(t, "no quorum: 1 of 3 voters is alive, 2 are needed; writes and linearizable reads fail, stale reads work", a.Checks["leader"])
		code, a = g.ready("?consistency=stale")
		require.Equal(t, 200, code, "stale reads work through this gateway")
		require.Equal(t, "ready", a.Status)

		alone.Store(false)
		time.Sleep(5 * time.Second)
		code, a = g.ready("")
		require.Equal(t, 200, code, "it comes back by itself")
		require.Equal(t, allOK, a.Checks)
		code, _ = g.ready("?consistency=perhaps")
		require.Equal(t, 422, code)
	})
}

// A gateway that has never reached a leader is not ready, from the start on.
func TestReady_beforeThereWasALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		var alone atomic.Bool
		alone.Store(true)
		leaderless(c, &alone)
		g := runGateway(t, testConfig(c))
		code, a := g.ready("")
		require.Equal(t, 503, code, a)
		alone.Store(false)
		time.Sleep(5 * time.Second)
		code, _ = g.ready("")
		require.Equal(t, 200, code)
	})
}
