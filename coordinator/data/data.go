// Package data answers DataService: whether nodes could fetch data sources, and what they keep of them.
//
// Guarantees. It asks agents, and waits a bounded time for each. What a node keeps of another tenant is not told; nor is
// anything of a node but what a job of the tenant would find there.
//
// Not guaranteed: that what could be fetched now can be when a job runs.
package data

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/admission"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

const (
	// maxProbed bounds those that are looked at together.
	maxProbed = 100
	// probeTime bounds how long nodes may take to look; probeNodes is how many are tried.
	probeTime  = 20 * time.Second
	probeNodes = 3
	// cacheTime bounds how long a node may take to list what it keeps, and cacheAsked how many are asked together.
	cacheTime  = 3 * time.Second
	cacheAsked = 32
)

// State is the state of the cluster as this replica has it.
type State interface {
	// Read waits until the state has everything that was acknowledged before the call, unless the call asked for stale.
	Read(ctx context.Context) (*fsm.View, error)
}

// Agents are connections to the agents, by address. A connection belongs to them.
type Agents interface {
	To(addr string) (*grpc.ClientConn, error)
}

// Service answers DataService. It holds nothing itself.
type Service struct {
	v1.UnimplementedDataServiceServer

	state  State
	agents Agents
	log    *slog.Logger
}

// New makes a Service.
func New(state State, agents Agents, log *slog.Logger) *Service {
	return &Service{state: state, agents: agents, log: log}
}

// agent is the way to the agent of a node.
func (s *Service) agent(node *work.Node) (v1.TaskServiceClient, error) {
	conn, err := s.agents.To(node.GRPCAddr)
	if err != nil {
		return nil, err
	}
	return v1.NewTaskServiceClient(conn), nil
}

// ValidateData lets a node look whether it could fetch sources. It tells nothing of the node but what a job of the tenant
// would find there.
func (s *Service) ValidateData(ctx context.Context, req *v1.ValidateDataRequest) (*v1.ValidateDataResponse, error) {
	switch n := len(req.GetSources()); {
	case n == 0:
		return nil, call.Bad("sources", "is empty: name at least one data source")
	case n > maxProbed:
		return nil, call.Bad("sources", "has %d entries; at most %d are looked at together", n, maxProbed)
	}
	for i, source := range req.GetSources() {
		if err := admission.CheckSource(fmt.Sprintf("sources[%d].path", i), source.GetPath()); err != nil {
			return nil, err
		}
	}
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := probeable(v, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	c := call.Of(ctx)
	probe := &v1.ProbeDataRequest{
		TenantId: c.Tenant, Sources: req.GetSources(),
		Credentials: &v1.DataCredentials{ScaidriveToken: c.DriveToken, ScaiatlasToken: c.AtlasToken},
	}
	looking, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	for _, node := range nodes {
		found, err := s.probe(looking, node, probe)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			s.log.Warn("a node did not look at data sources", "node", node.ID, "request_id", c.RequestID, "error", err)
			continue
		}
		out := &v1.ValidateDataResponse{Valid: true, Sources: found.GetSources(), NodeId: node.ID}
		for _, source := range out.GetSources() {
			out.Valid = out.Valid && source.GetValid()
		}
		return out, nil
	}
	return nil, call.Errorf(codes.Unavailable, "no node could be asked to look at the data sources: try again, or name another node")
}

// probeable lists nodes that may look: the one that was named, else those that take work, beginning anywhere.
func probeable(v *fsm.View, name string) ([]*work.Node, error) {
	if name != "" {
		node, ok := v.Node(name)
		if !ok {
			return nil, call.NotFound("node", name)
		}
		return []*work.Node{node}, nil
	}
	var nodes []*work.Node
	for n := range v.Nodes() {
		if n.State == v1.NodeState_READY && n.GRPCAddr != "" {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return nil, call.Errorf(codes.FailedPrecondition, "no node is ready, and it is nodes that fetch data: look at the nodes of the cluster")
	}
	first := int(time.Now().UnixNano() % int64(len(nodes)))
	nodes = append(nodes[first:], nodes[:first]...)
	return nodes[:min(len(nodes), probeNodes)], nil
}

func (s *Service) probe(ctx context.Context, node *work.Node, req *v1.ProbeDataRequest) (*v1.ProbeDataResponse, error) {
	agent, err := s.agent(node)
	if err != nil {
		return nil, err
	}
	found, err := agent.ProbeData(ctx, req)
	if err == nil && len(found.GetSources()) != len(req.GetSources()) {
		err = fmt.Errorf("it looked at %d of %d sources", len(found.GetSources()), len(req.GetSources()))
	}
	return found, err
}

// GetDataCache asks all nodes what they keep of the caller's tenant.
func (s *Service) GetDataCache(ctx context.Context, _ *v1.GetDataCacheRequest) (*v1.GetDataCacheResponse, error) {
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	var nodes []*work.Node
	for n := range v.Nodes() {
		nodes = append(nodes, n)
	}
	req := &v1.ReadDataCacheRequest{TenantId: call.Of(ctx).Tenant}
	out := &v1.GetDataCacheResponse{Nodes: make([]*v1.NodeDataCache, len(nodes))}
	var all sync.WaitGroup
	slots := make(chan struct{}, cacheAsked)
	for i, n := range nodes {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out.Nodes[i] = s.readCache(ctx, n, req)
		})
	}
	all.Wait()
	return out, ctx.Err()
}

// readCache asks one node. That it could not be asked is part of the answer.
func (s *Service) readCache(ctx context.Context, node *work.Node, req *v1.ReadDataCacheRequest) *v1.NodeDataCache {
	if node.GRPCAddr == "" || node.State == v1.NodeState_UNREACHABLE || node.State == v1.NodeState_LOST {
		return &v1.NodeDataCache{NodeId: node.ID, Error: "the node is not in touch with the coordinators"}
	}
	ctx, cancel := context.WithTimeout(ctx, cacheTime)
	defer cancel()
	var kept *v1.ReadDataCacheResponse
	agent, err := s.agent(node)
	if err == nil {
		kept, err = agent.ReadDataCache(ctx, req)
	}
	switch {
	case grpcstatus.Code(err) == codes.Unimplemented:
		return &v1.NodeDataCache{NodeId: node.ID, Error: "its agent is of a version that keeps no data"}
	case err != nil:
		s.log.Warn("a node did not tell what data it keeps", "node", node.ID, "error", err)
		return &v1.NodeDataCache{NodeId: node.ID, Error: "the node did not answer in time"}
	}
	out := kept.GetCache()
	if out == nil {
		out = &v1.NodeDataCache{}
	}
	out.NodeId = node.ID
	return out
}
