package data

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/chaos/virtual/network"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/links"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// site has a state with nodes, and agents for some of them.
type site struct {
	*Service
	t     *testing.T
	state *fsm.Machine
	index uint64
	net   *network.Network
}

// Read implements State.
func (s *site) Read(context.Context) (*fsm.View, error) { return s.state.View(), nil }

// newSite must be called in a bubble.
func newSite(t *testing.T) *site {
	s := &site{t: t, state: fsm.New(), net: network.New(1)}
	agents := links.New(s.net.Host("10.0.0.1").Dial, nil)
	t.Cleanup(agents.Close)
	s.Service = New(s, agents, slog.New(slog.DiscardHandler))
	return s
}

func (s *site) apply(c kernel.Command) {
	s.t.Helper()
	data, err := kernel.Encode(level.Newest, c)
	require.NoError(s.t, err)
	s.index++
	s.state.Apply(s.index, kernel.Pack(level.Newest, time.Now(), [][]byte{data}))
}

// node registers a node with the given agent.
func (s *site) node(id string, agent v1.TaskServiceServer) {
	s.t.Helper()
	host := s.net.Host(fmt.Sprintf("10.0.1.%d", s.index+1))
	l, err := host.Listen(host.Addr(7000))
	require.NoError(s.t, err)
	server := grpc.NewServer()
	v1.RegisterTaskServiceServer(server, agent)
	go func() { _ = server.Serve(l) }()
	s.t.Cleanup(server.Stop)
	s.apply(nodeverbs.RegisterNode{Node: work.Node{ID: id, BootID: "b", GRPCAddr: host.Addr(7000), CPUs: 8, MemMB: 1000}})
}

// agent answers with its functions. If a function is nil, the agent is of a version without the call.
type agent struct {
	v1.UnimplementedTaskServiceServer
	probe func(context.Context, *v1.ProbeDataRequest) (*v1.ProbeDataResponse, error)
	cache func(context.Context) (*v1.ReadDataCacheResponse, error)
}

func (a agent) ProbeData(ctx context.Context, req *v1.ProbeDataRequest) (*v1.ProbeDataResponse, error) {
	if a.probe == nil {
		return a.UnimplementedTaskServiceServer.ProbeData(ctx, req)
	}
	return a.probe(ctx, req)
}

func (a agent) ReadDataCache(ctx context.Context, req *v1.ReadDataCacheRequest) (*v1.ReadDataCacheResponse, error) {
	if a.cache == nil {
		return a.UnimplementedTaskServiceServer.ReadDataCache(ctx, req)
	}
	return a.cache(ctx)
}

func ofTenant(t *testing.T) context.Context {
	return call.With(t.Context(), &call.Call{Tenant: "acme"})
}

func sources(paths ...string) (out []*v1.DataSource) {
	for _, p := range paths {
		out = append(out, &v1.DataSource{Path: p})
	}
	return out
}

// hangs returns when the caller has gone.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// If a node fails, or its answer is incomplete, another node is asked. It does not matter where the search begins.
func TestValidateData_asksAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.node("broken", agent{probe: func(context.Context, *v1.ProbeDataRequest) (*v1.ProbeDataResponse, error) {
			return nil, grpcstatus.Error(codes.Internal, "no disk")
		}})
		s.node("terse", agent{probe: func(context.Context, *v1.ProbeDataRequest) (*v1.ProbeDataResponse, error) {
			return &v1.ProbeDataResponse{Sources: []*v1.DataSourceCheck{{Valid: true}}}, nil
		}})
		s.node("well", agent{probe: func(_ context.Context, req *v1.ProbeDataRequest) (*v1.ProbeDataResponse, error) {
			if req.GetTenantId() != "acme" {
				return nil, grpcstatus.Errorf(codes.PermissionDenied, "tenant %q", req.GetTenantId())
			}
			return &v1.ProbeDataResponse{Sources: []*v1.DataSourceCheck{{Valid: true}, {Message: "no such file"}}}, nil
		}})
		for range 3 {
			found, err := s.ValidateData(ofTenant(t), &v1.ValidateDataRequest{Sources: sources("/a", "/b")})
			require.NoError(t, err)
			require.Equal(t, "well", found.GetNodeId())
			require.False(t, found.GetValid(), "one of them is not")
			time.Sleep(time.Nanosecond) // the search begins elsewhere
		}
		for _, id := range []string{"broken", "terse"} {
			_, err := s.ValidateData(ofTenant(t), &v1.ValidateDataRequest{Sources: sources("/a", "/b"), NodeId: id})
			require.Equal(t, codes.Unavailable, grpcstatus.Code(call.ToStatus(err)), "%s: %v", id, err)
			require.Equal(t, status.NodeSilent, call.OutcomeOf(err))
			require.ErrorContains(t, err, "node "+id+" could not check the data sources")
		}
	})
}

// Nodes that hang delay the caller only up to the limit.
func TestValidateData_doesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		for i := range probeNodes + 1 {
			s.node(fmt.Sprint("n", i), agent{probe: func(ctx context.Context, _ *v1.ProbeDataRequest) (*v1.ProbeDataResponse, error) {
				return nil, hangs(ctx)
			}})
		}
		began := time.Now()
		_, err := s.ValidateData(ofTenant(t), &v1.ValidateDataRequest{Sources: sources("/a")})
		require.Equal(t, codes.Unavailable, grpcstatus.Code(call.ToStatus(err)), err)
		require.Equal(t, probeTime, time.Since(began))
		require.Equal(t, status.NodeSilent, call.OutcomeOf(err))
		require.ErrorContains(t, err, "do not answer")

		ctx, cancel := context.WithTimeout(ofTenant(t), time.Second)
		defer cancel()
		_, err = s.ValidateData(ctx, &v1.ValidateDataRequest{Sources: sources("/a"), NodeId: "n1"})
		require.NoError(t, ctx.Err(), "the answer comes while the caller still listens")
		require.ErrorContains(t, err, "node n1 does not answer")

		s.apply(nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeUnreachable})
		began = time.Now()
		_, err = s.ValidateData(ofTenant(t), &v1.ValidateDataRequest{Sources: sources("/a"), NodeId: "n2"})
		require.ErrorContains(t, err, "node n2 does not answer")
		require.Equal(t, status.NodeSilent, call.OutcomeOf(err))
		require.Zero(t, time.Since(began), "this is known already")
	})
}

func TestValidateData_refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		for name, req := range map[string]*v1.ValidateDataRequest{
			"none":        {},
			"too many":    {Sources: make([]*v1.DataSource, maxProbed+1)},
			"no source":   {Sources: sources("/a", "")},
			"of a scheme": {Sources: sources("ftp://host/a")},
		} {
			_, err := s.ValidateData(ofTenant(t), req)
			require.Equal(t, codes.InvalidArgument, grpcstatus.Code(call.ToStatus(err)), "%s: %v", name, err)
		}
	})
}

// The answer lists all nodes. A node that does not answer does not affect the others, and all silent nodes together
// delay the answer only once.
func TestGetDataCache_saysWhyANodeSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		for i := range cacheAsked {
			s.node(fmt.Sprintf("hangs-%02d", i), agent{cache: func(ctx context.Context) (*v1.ReadDataCacheResponse, error) {
				return nil, hangs(ctx)
			}})
		}
		s.node("old", agent{})
		s.node("well", agent{cache: func(context.Context) (*v1.ReadDataCacheResponse, error) {
			return &v1.ReadDataCacheResponse{Cache: &v1.NodeDataCache{UsedBytes: 7}}, nil
		}})
		s.node("empty", agent{cache: func(context.Context) (*v1.ReadDataCacheResponse, error) { return &v1.ReadDataCacheResponse{}, nil }})
		s.node("away", agent{})
		s.apply(nodeverbs.SetNode{ID: "away", Action: nodeverbs.NodeUnreachable})
		began := time.Now()
		out, err := s.GetDataCache(ofTenant(t), &v1.GetDataCacheRequest{})
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), 2*cacheTime)
		require.Len(t, out.GetNodes(), cacheAsked+4)
		said := map[string]*v1.NodeDataCache{}
		for _, n := range out.GetNodes() {
			said[n.GetNodeId()] = n
		}
		require.Equal(t, "the node did not answer in time", said["hangs-00"].GetError())
		require.Equal(t, "its agent's version has no data cache", said["old"].GetError())
		require.Contains(t, said["away"].GetError(), "not connected")
		require.Empty(t, said["well"].GetError())
		require.EqualValues(t, 7, said["well"].GetUsedBytes())
		require.Empty(t, said["empty"].GetError())
	})
}
