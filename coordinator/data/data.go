// Package data implements DataService: it checks whether nodes can fetch data sources, and lists what they cache.
//
// Guarantees. It asks agents, and waits a bounded time for each. Cached data of other tenants is not shown, and nothing
// about a node that a job of the tenant could not see there.
//
// Not guaranteed: that a source that can be fetched now can be fetched when a job runs.
package data

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
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
	// maxProbed limits the sources of one call.
	maxProbed = 100
	// probeTime limits how long a node may take; probeNodes is the number of nodes that are tried.
	probeTime  = 20 * time.Second
	probeNodes = 3
	// answerTime is the part of the caller's time that is left for the answer.
	answerTime = 500 * time.Millisecond
	// cacheTime limits how long a node may take to list its cache, and cacheAsked how many nodes are asked at the same
	// time.
	cacheTime  = 3 * time.Second
	cacheAsked = 32
)

// State is the state of the cluster as this replica has it.
type State interface {
	// Read waits until the state has all writes that were acknowledged before the call, unless the call asked for
	// stale.
	Read(ctx context.Context) (*fsm.View, error)
}

// Agents holds connections to the agents, by address. It owns them.
type Agents interface {
	To(addr string) (*grpc.ClientConn, error)
}

// Service implements DataService. It has no state.
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

// agent returns the client of a node's agent.
func (s *Service) agent(node *work.Node) (v1.TaskServiceClient, error) {
	conn, err := s.agents.To(node.GRPCAddr)
	if err != nil {
		return nil, err
	}
	return v1.NewTaskServiceClient(conn), nil
}

// ValidateData lets a node check whether it could fetch sources. It reveals nothing about the node that a job of the
// tenant could not see there.
func (s *Service) ValidateData(ctx context.Context, req *v1.ValidateDataRequest) (*v1.ValidateDataResponse, error) {
	switch n := len(req.GetSources()); {
	case n == 0:
		return nil, call.Bad("sources", "is empty: give at least one data source")
	case n > maxProbed:
		return nil, call.Bad("sources", "has %d entries; at most %d can be checked in one call", n, maxProbed)
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
	limit := probeTime
	if at, ok := ctx.Deadline(); ok {
		// The caller reads the answer before its own time is over.
		limit = min(limit, max(time.Until(at)-answerTime, time.Until(at)/2))
	}
	looking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var silent, unable []string
	for _, node := range nodes {
		if node.State == v1.NodeState_UNREACHABLE || node.State == v1.NodeState_LOST {
			silent = append(silent, node.ID)
			continue
		}
		found, err := s.probe(looking, node, probe)
		if gone := over(ctx); gone != nil {
			return nil, gone
		}
		if err != nil {
			s.log.Warn("a node could not check data sources", "node", node.ID, "request_id", c.RequestID, "error", err)
			if code := grpcstatus.Code(err); looking.Err() != nil || code == codes.Unavailable || code == codes.DeadlineExceeded {
				silent = append(silent, node.ID)
			} else {
				unable = append(unable, node.ID)
			}
			continue
		}
		out := &v1.ValidateDataResponse{Valid: true, Sources: found.GetSources(), NodeId: node.ID}
		for _, source := range out.GetSources() {
			out.Valid = out.Valid && source.GetValid()
		}
		return out, nil
	}
	return nil, notChecked(silent, unable)
}

// notChecked returns an error that names the nodes that gave no answer.
func notChecked(silent, unable []string) error {
	var why []string
	switch len(silent) {
	case 0:
	case 1:
		why = append(why, "node "+silent[0]+" does not answer")
	default:
		why = append(why, "nodes "+strings.Join(silent, ", ")+" do not answer")
	}
	switch len(unable) {
	case 0:
	case 1:
		why = append(why, "node "+unable[0]+" could not check the data sources")
	default:
		why = append(why, "nodes "+strings.Join(unable, ", ")+" could not check the data sources")
	}
	return call.NodeSilent("%s: name another node, or see `mind nodes`", strings.Join(why, ", and "))
}

// probeable returns the nodes for the check: the requested one, or all that accept work, starting at a random one.
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
		return nil, call.Errorf(codes.FailedPrecondition, "no node is ready, and nodes fetch the data: check the nodes of the cluster")
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
		err = fmt.Errorf("it checked %d of %d sources", len(found.GetSources()), len(req.GetSources()))
	}
	return found, err
}

// GetDataCache asks all nodes what they cache for the caller's tenant.
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

// readCache asks one node. An error is part of the answer.
func (s *Service) readCache(ctx context.Context, node *work.Node, req *v1.ReadDataCacheRequest) *v1.NodeDataCache {
	if node.GRPCAddr == "" || node.State == v1.NodeState_UNREACHABLE || node.State == v1.NodeState_LOST {
		return &v1.NodeDataCache{NodeId: node.ID, Error: "the node is not connected to the coordinators"}
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
		return &v1.NodeDataCache{NodeId: node.ID, Error: "its agent's version has no data cache"}
	case err != nil:
		s.log.Warn("cannot read the data cache of a node", "node", node.ID, "error", err)
		return &v1.NodeDataCache{NodeId: node.ID, Error: "the node did not answer in time"}
	}
	out := kept.GetCache()
	if out == nil {
		out = &v1.NodeDataCache{}
	}
	out.NodeId = node.ID
	return out
}

// over reports whether the caller has gone, or its time is over: the node may notice that before the context does.
func over(ctx context.Context) error {
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}
