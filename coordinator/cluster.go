package coordinator

import (
	"context"
	"math/bits"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/metrics"
	"github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/joblist"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/scheduler"
)

// GetCluster sums up the cluster. Jobs are counted for the caller's tenant only; GPUs and nodes are everybody's, and so is how much
// the GPUs work together.
func (s *server) GetCluster(ctx context.Context, _ *v1.GetClusterRequest) (*v1.GetClusterResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &v1.GetClusterResponse{Jobs: map[string]int32{}}
	types := map[string]*v1.GpuTypeSummary{}
	active, worked := s.sessions.Activity(ctx, ""), 0.0
	for n := range v.Nodes() {
		out.NodesTotal++
		ready := n.State == v1.NodeState_READY
		if ready {
			out.NodesReady++
		}
		use := v.Use(n.ID)
		for i := range n.GPUs {
			g := &n.GPUs[i]
			t := types[g.Type]
			if t == nil {
				t = &v1.GpuTypeSummary{GpuType: g.Type}
				types[g.Type] = t
				out.GpuTypes = append(out.GpuTypes, t)
			}
			out.GpusTotal++
			t.Total++
			healthy, leased := g.Health == v1.GpuHealth_HEALTHY, (use.Exclusive|use.Shared)&(1<<g.Index) != 0
			if healthy {
				out.GpusHealthy++
				if sample := active.GPU(n.ID, int32(g.Index)); sample != nil && sample.UtilizationPercent != nil {
					out.GpusMeasured++
					worked += float64(*sample.UtilizationPercent) / 100
				}
			}
			if leased {
				out.GpusAllocated++
			}
			if ready && healthy && !leased {
				t.Free++
			}
		}
	}
	slices.SortFunc(out.GpuTypes, func(a, b *v1.GpuTypeSummary) int { return strings.Compare(a.GpuType, b.GpuType) })
	if out.GpusHealthy > 0 {
		out.GpuAllocation = float64(out.GpusAllocated) / float64(out.GpusHealthy)
	}
	out.GpuUtilization = worked / float64(out.GpusMeasured) // NaN, which says that it is not known, when none was measured
	tenant := call.Of(ctx).Tenant
	for state, n := range metrics.JobCounts(v.CountsOf(tenant), v.HeldOf(tenant)) {
		if n > 0 {
			out.Jobs[state] = int32(n)
		}
	}
	out.Leader, _ = s.replica.Raft().Leader()
	liveness := s.liveness()
	for _, p := range s.replica.Raft().Peers() {
		out.Coordinators = append(out.Coordinators, &v1.CoordinatorStatus{Id: p.ID, Leader: p.Leader, Voter: p.Voter, Liveness: liveness(p.ID)})
	}
	return out, nil
}

// liveness looks up how gossip sees a coordinator.
func (s *server) liveness() func(id string) string {
	states := map[string]gossip.State{s.config.ID: gossip.Alive}
	if s.pool != nil {
		for _, m := range s.pool.Members() {
			if m.Name != s.config.ID {
				states[m.Name] = m.State
			}
		}
	}
	return func(id string) string {
		if state, ok := states[id]; ok {
			return string(state)
		}
		return "unknown"
	}
}

// ListNodes lists all nodes.
func (s *server) ListNodes(ctx context.Context, _ *v1.ListNodesRequest) (*v1.ListNodesResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	out, active := &v1.ListNodesResponse{}, s.sessions.Activity(ctx, "")
	for n := range v.Nodes() {
		out.Nodes = append(out.Nodes, s.nodeView(v, n, call.Of(ctx), active))
	}
	return out, nil
}

// GetNode shows one node.
func (s *server) GetNode(ctx context.Context, req *v1.GetNodeRequest) (*v1.GetNodeResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	n, ok := v.Node(req.GetNodeId())
	if !ok {
		return nil, call.NotFound("node", req.GetNodeId())
	}
	return &v1.GetNodeResponse{Node: s.nodeView(v, n, call.Of(ctx), s.sessions.Activity(ctx, n.ID))}, nil
}

// nodeView is a node as a tenant may see it: of what runs there, only the tenant's own is named and counted. Operators are
// told how many tasks there are of all tenants, because they must know what a drain waits for; not whose. So it is with what a GPU
// does: a tenant is told of those that its own jobs hold alone.
func (s *server) nodeView(v *fsm.View, n *fsm.Node, c *call.Call, active session.Activity) *v1.Node {
	use := v.Use(n.ID)
	out := &v1.Node{
		NodeId: n.ID, State: n.State, Reason: n.Reason, Hostname: n.Hostname, CpuCount: int32(n.CPUs), MemoryMb: int32(n.MemMB),
		Labels: n.Labels, AgentVersion: n.AgentVersion, BootId: n.BootID, RegisteredAt: timestamp(n.RegisteredAt),
		RosterCurrent: n.RosterSince != 0 && n.RosterAcked >= v.RosterVersion(),
	}
	out.LastSeenAt = active[n.ID].GetLastSeenAt()
	if n.UnreachableSince != 0 {
		out.UnreachableSince = timestamp(n.UnreachableSince)
	}
	if n.Drain != nil {
		out.DrainDeadline = timestamp(n.Drain.Deadline)
	}
	holders, others := map[int]string{}, uint64(0)
	for lease := range v.LeasesOn(n.ID) {
		if j, ok := v.Job(lease.Job); !ok || j.Tenant != c.Tenant {
			others |= lease.GPUs
			continue
		}
		out.Tasks++
		id := lease.Job.String()
		if !slices.Contains(out.JobIds, id) {
			out.JobIds = append(out.JobIds, id)
		}
		for set := lease.GPUs; set != 0; set &= set - 1 {
			holders[bits.TrailingZeros64(set)] = id
		}
	}
	if c.Operator {
		out.Tasks = int32(use.Tasks)
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Health == v1.GpuHealth_HEALTHY && (use.Exclusive|use.Shared)&(1<<g.Index) == 0 {
			out.GpusFree++
		}
		shown := &v1.Gpu{
			Uuid: g.UUID, Index: int32(g.Index), Model: g.Model, GpuType: g.Type, MemoryMb: int32(g.MemMB), PciBusId: g.PCI,
			NumaNode: int32(g.NUMA), NvlinkPeers: session.Indices(g.NVLink), Health: g.Health, HealthReason: g.HealthReason,
			Simulated: g.Simulated, JobId: holders[int(g.Index)],
		}
		if c.Operator || shown.JobId != "" && others&(1<<g.Index) == 0 {
			session.Show(shown, active.GPU(n.ID, shown.Index))
		}
		out.Gpus = append(out.Gpus, shown)
	}
	return out
}

// Jobs listed by GetQueue.
const (
	defaultQueueList = 100
	maxQueueList     = 1000
)

// GetQueue lists the caller's waiting jobs, with their places among those of all tenants. The depth is the caller's.
func (s *server) GetQueue(ctx context.Context, req *v1.GetQueueRequest) (*v1.GetQueueResponse, error) {
	limit := int(req.GetLimit())
	switch {
	case limit == 0:
		limit = defaultQueueList
	case limit < 0 || limit > maxQueueList:
		return nil, call.Bad("limit", "%d must lie between 1 and %d", limit, maxQueueList)
	}
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := v.Queue(req.GetQueue()); !ok && req.GetQueue() != "" {
		return nil, call.NotFound("queue", req.GetQueue())
	}
	tenant := call.Of(ctx).Tenant
	return queueOf(v, tenant, req.GetQueue(), limit, s.forecasts.Tenant(ctx, v, tenant)), nil
}

// queueOf lists the first waiting jobs of a tenant, queue by queue. It looks at no other job: how many a tenant has, and how many
// are ahead of each in its queue, is counted as they come and go.
func queueOf(v *fsm.View, tenant, queue string, limit int, foreseen *scheduler.Forecast) *v1.GetQueueResponse {
	out := &v1.GetQueueResponse{}
	waiting := map[string][]fsm.CountedGroup{}
	for g := range v.JobGroups(tenant) {
		switch {
		case g.State != v1.JobState_QUEUED || queue != "" && g.Queue != queue:
		case g.Held:
			out.Held += int32(g.Jobs)
		default:
			out.Depth += int32(g.Jobs)
			waiting[g.Queue] = append(waiting[g.Queue], g)
		}
	}
	for q := range v.Queues() {
		if len(waiting[q.Name]) == 0 || len(out.Jobs) == limit {
			continue
		}
		places := v.Places(q.Name)
		for j := range joblist.ByPriority(v, waiting[q.Name]) {
			out.Jobs = append(out.Jobs, queuedView(v, j, int32(places.Ahead(j))+1, foreseen))
			if len(out.Jobs) == limit {
				break
			}
		}
	}
	return out
}

func queuedView(v *fsm.View, j *fsm.Job, position int32, foreseen *scheduler.Forecast) *v1.QueuedJob {
	return &v1.QueuedJob{
		JobId: j.ID.String(), Name: j.Name, Queue: j.Queue, Position: position, Priority: int32(j.Priority),
		GpuCount: int32(j.Shape.GPUs) * int32(max(1, j.Shape.Nodes)), GpuType: j.Shape.GPUType,
		Reason: jobview.Reason(v, j), CreatedAt: timestamp(j.CreatedAt), EstimatedWaitSeconds: forecast.WaitOf(foreseen, j),
	}
}
